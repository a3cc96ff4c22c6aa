"""One candidate before the judge: is it the same function?"""

from __future__ import annotations

import hashlib
import secrets

import torch

from kernelskill.evaluation import correctness
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.families import FAMILIES, perturbed
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.reference import ReferenceSide
from kernelskill.evaluation.seat import Burst, Seat
from kernelskill.evaluation.state import State
from kernelskill.records import FamilyError, Precision, Status, Workload

PERTURBED = "perturbed-parameters"
KERNELBENCH_TOLERANCE = 1e-4


class Secret:
    """The seed of one evaluation: drawn after the candidate is loaded, told after it is dead."""

    def __init__(self) -> None:
        self.seed = secrets.token_bytes(32)
        self._count = 0

    @property
    def commitment(self) -> str:
        """sha256 of the seed, written down before it is used."""
        return hashlib.sha256(self.seed).hexdigest()

    def next(self) -> int:
        """The next input seed; none is ever used twice."""
        self._count += 1
        digest = hashlib.sha256(self.seed + self._count.to_bytes(8, "big")).digest()
        return int.from_bytes(digest[:8], "big") >> 1


class Wrong(Exception):
    """The candidate does not compute the same; carries the verdict."""

    def __init__(self, status: Status, detail: str, hint: str = "", errors: tuple[FamilyError, ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.errors = errors


class Trial:
    """Checks results of one candidate against the reference."""

    def __init__(
        self, workload: Workload, reference: ReferenceSide, precision: Precision, tolerance: str, secret: Secret
    ) -> None:
        self.workload = workload
        self.reference = reference
        self.precision = precision
        self.tolerance = tolerance
        self.secret = secret
        inputs = sum(spec.numel for spec in workload.inputs)
        outputs = sum(spec.numel for spec in workload.outputs)
        self._longest = correctness.longest_sum(workload.graph, inputs, outputs)
        self.errors: list[FamilyError] = []

    def seeds(self, count: int) -> list[int]:
        """Fresh input seeds."""
        return [self.secret.next() for _ in range(count)]

    def calls(self) -> int:
        """Calls per family: enough to pool small outputs."""
        smallest = min((spec.numel for spec in self.workload.outputs), default=1)
        wanted = 16 if smallest < correctness.POOLED_ELEMENTS else 2
        return min(wanted, self.reference.layout.count)

    def allowed(self, dtype: torch.dtype) -> float:
        """Relative error that rounding may cost in an output of that type."""
        return correctness.allowance(dtype, self.precision, self._longest)

    def families(self, seat: Seat, state: State) -> None:
        """Compare on the task's own inputs and on every hidden family.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
        """
        self._state_updates(seat, state)
        for family in ("task", *FAMILIES, PERTURBED):
            values = self.reference.initial
            if family == PERTURBED:
                if not values:
                    continue
                rng = torch.Generator().manual_seed(self.secret.next() >> 2)
                values = dict(zip(values, perturbed(list(values.values()), rng), strict=True))
            batch = self.reference.draw(self.seeds(self.calls()), family)
            if batch is None:
                continue
            state.write(values)
            self.reference.state.write(values)
            self._family(seat, family, batch, values)
        state.write(self.reference.initial)
        self.reference.state.write(self.reference.initial)

    def _family(self, seat: Seat, family: str, batch: torch.Tensor, values: dict[str, torch.Tensor]) -> None:
        calls = self.calls()
        try:
            eager = self.reference.eager(batch, calls)
            self.reference.state.write(values)
            twin = self.reference.twin(batch, calls)
        except WorkerFailure as failure:
            if family == "task":
                raise Wrong(Status.UNTESTABLE, f"the reference fails: {failure.detail}") from failure
            return
        burst = seat.burst(batch, calls=calls)
        mine = [seat.outputs.views(burst.outputs, call) for call in range(calls)]
        for place, spec in enumerate(self.workload.outputs):
            pool = Pool()
            for call in range(calls):
                pool.add(mine[call][place], eager[call][place], twin[call][place])
            if family != "task" and not self._counts(pool):
                continue
            self._gate(pool, family, f"output[{place}]", getattr(torch, spec.dtype))

    def _counts(self, pool: Pool) -> bool:
        """A hidden family counts where the twin is finite and eager itself is accurate."""
        if correctness.finite_share(pool.twin) < 0.99:
            return False
        if not pool.eager[0].is_floating_point():
            return True
        allowed = self.allowed(pool.eager[0].dtype)
        zeros = Pool([torch.zeros_like(item) for item in pool.eager], pool.eager, pool.twin)
        return not correctness.judge(zeros, "", "", allowed).passed

    def _gate(self, pool: Pool, family: str, name: str, dtype: torch.dtype) -> None:
        if self.tolerance == "kernelbench":
            found = correctness.allclose(pool, family, name, KERNELBENCH_TOLERANCE)
        else:
            found = correctness.judge(pool, family, name, self.allowed(dtype))
        self.errors.append(found)
        if not found.passed:
            hint = self._hint(found, pool)
            raise Wrong(Status.WRONG_VALUES, f"{family} inputs, {name}: {found.note}", hint, tuple(self.errors))

    def _hint(self, found: FamilyError, pool: Pool) -> str:
        if any(bool((item == _poison(item)).any()) for item in pool.candidate):
            return "some elements were never written"
        if found.rms is not None and found.limit is not None and found.rms < correctness.REDUCED_ERROR:
            return "as accurate as a reduced-precision computation; fp32 is owed"
        if found.family == PERTURBED:
            return "the result ignores parameters or buffers that changed after construction"
        if any(spec.stride and not spec.is_contiguous for spec in self.workload.inputs):
            return "inputs are not contiguous; read them by their strides"
        return ""

    def _state_updates(self, seat: Seat, state: State) -> None:
        """Buffers that the reference rewrites are compared like outputs, after one call."""
        if not self.workload.updated_state:
            return
        batch = self.reference.draw(self.seeds(1) * self.reference.layout.count)
        assert batch is not None
        initial = self.reference.initial
        state.write(initial)
        self.reference.state.write(initial)
        seat.burst(batch, calls=1)
        mine = state.read()
        self.reference.eager(batch, 1)
        due = self.reference.state.read()
        self.reference.state.write(initial)
        state.write(initial)
        for path in self.workload.updated_state:
            if path not in mine:
                raise Wrong(Status.WRONG_STATE, f"buffer {path} is missing; the reference updates it")
            pool = Pool([mine[path]], [due[path]], [_widened(due[path])])
            found = correctness.judge(pool, "task", path, 8 * self.allowed(torch.float32))
            self.errors.append(found)
            if not found.passed:
                detail = f"buffer {path} after one call: {found.note}"
                raise Wrong(
                    Status.WRONG_STATE, detail, "update it as the reference does", tuple(self.errors)
                )

    def timed(self, seat: Seat, bursts: dict[str, Burst]) -> None:
        """Every output that was timed is compared with eager's on the same inputs.

        Raises:
            Wrong: one differs.
        """
        mine, eager = bursts["candidate"].outputs, bursts["eager"].outputs
        for call in range(seat.inputs.count):
            pairs = zip(seat.outputs.views(mine, call), seat.outputs.views(eager, call), strict=True)
            for place, (candidate, due) in enumerate(pairs):
                pool = Pool([candidate], [due], [_widened(due)])
                known = [item.rms_eager or 0.0 for item in self.errors if item.family == "task"]
                # Both may be off by as much as either may be off from the twin.
                allowed = 3 * max([self.allowed(candidate.dtype), *known])
                if self.tolerance == "kernelbench":
                    allowed = max(allowed, KERNELBENCH_TOLERANCE)
                if correctness.roughly_equal(candidate, due, allowed):
                    continue
                found = correctness.judge(pool, "timed", f"output[{place}]", allowed)
                if not found.passed:
                    detail = f"an output of a timed call, output[{place}]: {found.note}"
                    raise Wrong(
                        Status.WRONG_VALUES, detail, "results must not depend on earlier calls", tuple(self.errors)
                    )


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _poison(tensor: torch.Tensor) -> torch.Tensor:
    from kernelskill.evaluation.seat import POISON

    return torch.full((tensor.element_size(),), POISON, dtype=torch.uint8).view(tensor.dtype)
