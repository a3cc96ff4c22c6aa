"""One candidate before the judge: whether it is the same function."""

from __future__ import annotations

import hashlib
import secrets

import torch

from kernelskill.evaluation import correctness, ties
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.families import FAMILIES, perturbed
from kernelskill.evaluation.reference import FINITE, ReferenceSide
from kernelskill.evaluation.seat import POISON, Burst, Seat, results
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.records import FamilyError, Precision, Status, Workload

PERTURBED = "perturbed-parameters"
KERNELBENCH_TOLERANCE, KERNELBENCH_HALF = 1e-4, 1e-2
POOLED_DRAWS = 16
ORACLE_ROUNDS = 0.15
"""Share of the timed rounds of which one call is also held against the float64 twin."""


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

    def __init__(
        self, status: Status, detail: str, hint: str = "", errors: tuple[FamilyError, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.errors = errors


class Trial:
    """Checks results of one candidate against the reference."""

    def __init__(
        self,
        workload: Workload,
        reference: ReferenceSide,
        precision: Precision,
        tolerance: str,
        secret: Secret,
    ) -> None:
        self.workload = workload
        self.reference = reference
        self.precision = precision
        self.tolerance = tolerance
        self.secret = secret
        inputs = sum(spec.numel for spec in workload.inputs)
        outputs = sum(spec.numel for spec in workload.outputs)
        self._longest = correctness.longest_sum(workload.graph, inputs, outputs)
        self._positions = ties.position_outputs(workload.graph)
        self._stricter = True
        self._typical: dict[int, list[torch.Tensor]] = {}
        """Eager's results on the task's own inputs, of small outputs: how large such results are."""
        self.errors: list[FamilyError] = []

    def seeds(self, count: int) -> list[int]:
        """Fresh input seeds."""
        return [self.secret.next() for _ in range(count)]

    def draws(self, family: str) -> int:
        """Calls of a family: enough to pool small outputs."""
        smallest = min((spec.numel for spec in self.workload.outputs), default=1)
        if smallest >= correctness.POOLED_ELEMENTS:
            return min(2, self.reference.layout.count)
        return POOLED_DRAWS if family == "task" else min(POOLED_DRAWS, self.reference.layout.count)

    def allowed(self, dtype: torch.dtype, precision: Precision | None = None) -> float:
        """Relative error that rounding may cost in an output of that type, at the precision owed or another."""
        return correctness.allowance(dtype, precision or self.precision, self._longest)

    @property
    def tier(self) -> str:
        """Strictest tier that every checked result met."""
        if self.precision in (Precision.MATCH, Precision.FP32):
            return self.precision.value
        return Precision.FP32.value if self._stricter else self.precision.value

    def families(self, seat: Seat) -> None:
        """Compare on the task's own inputs and on every hidden family.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
            StockFailure: the reference failed.
        """
        self._state_after(seat)
        initial = self.reference.initial
        for family in ("task", *FAMILIES):
            if family == "task" or self.reference.places(family):
                self.family(seat, family, initial)
        if initial:
            rng = self.reference.device.generator(self.secret.next() >> 2)
            values = dict(zip(initial, perturbed(list(initial.values()), rng), strict=True))
            self.family(seat, PERTURBED, values)
        seat.give_state(initial)
        self.reference.give_state(initial)

    def family(self, seat: Seat, family: str, values: dict[str, torch.Tensor]) -> None:
        """Compare on fresh inputs of one family, with these parameters and buffers.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
            StockFailure: the reference failed.
        """
        seat.give_state(values)
        self.reference.give_state(values)
        pools = [Pool() for _ in self.workload.outputs]
        left = self.draws(family)
        while left > 0:
            calls = min(left, self.reference.layout.count)
            left -= calls
            batch = self.reference.draw(self.seeds(calls), family)
            due = self._due(batch, calls, family)
            if due is None:
                return
            self.reference.device.trim()
            reset = (lambda: seat.give_state(values)) if self.workload.updated_state else None
            mine = results(seat, batch, calls, reset=reset)
            for rows in zip(mine, *due, strict=True):
                for pool, one, eager, twin in zip(pools, *rows, strict=True):
                    pool.add(one, eager, twin)
        for place, pool in enumerate(pools):
            if family == "task" and pool.eager[0].numel() < correctness.POOLED_ELEMENTS:
                self._typical[place] = pool.eager
            if family == "task" or correctness.finite_share(pool.twin) >= FINITE:
                self._gate(pool, family, place, seat)

    def _due(
        self, batch: torch.Tensor, calls: int, family: str
    ) -> tuple[list[list[torch.Tensor]], list[list[torch.Tensor]]] | None:
        """Eager's and the twin's results; None where the reference refuses such values."""
        try:
            return self.reference.eager(batch, calls), self.reference.twin(batch, calls)
        except StockFailure as failure:
            if not self.reference.worker.alive:
                self.reference.revive(failure)
            if family == "task":
                raise Wrong(
                    Status.UNTESTABLE, f"the reference fails on its own inputs: {failure.line}"
                ) from failure
            return None

    def _gate(self, pool: Pool, family: str, place: int, seat: Seat) -> None:
        name = f"output[{place}]"
        found = self._judged(pool, family, place, self.allowed(pool.eager[0].dtype))
        if found is None:
            return
        self.errors.append(found)
        if not found.passed:
            raise Wrong(
                Status.WRONG_VALUES,
                f"{family} inputs, {name}: {found.note}{self._lesser_tier(pool, family, place)}",
                self._hint(found, pool, seat),
                tuple(self.errors),
            )
        if self._stricter and self.precision in (Precision.TF32, Precision.REDUCED):
            strict = self._judged(pool, family, place, self.allowed(pool.eager[0].dtype, Precision.FP32))
            self._stricter = strict is None or strict.passed

    def _judged(self, pool: Pool, family: str, place: int, allowed: float) -> FamilyError | None:
        """The gates that fit this output; None where the family proves nothing about it."""
        name = f"output[{place}]"
        if place in self._positions and not pool.is_numeric:
            return None if family in ties.TIED_FAMILIES else ties.judge_positions(pool, family, name)
        if self.tolerance == "kernelbench":
            half = pool.eager[0].dtype in (torch.float16, torch.bfloat16)
            return correctness.allclose(
                pool, family, name, KERNELBENCH_HALF if half else KERNELBENCH_TOLERANCE
            )
        return correctness.judge(pool, family, name, allowed)

    def _lesser_tier(self, pool: Pool, family: str, place: int) -> str:
        if self.tolerance == "kernelbench" or not pool.is_numeric or self.precision is Precision.REDUCED:
            return ""
        reduced = self._judged(pool, family, place, self.allowed(pool.eager[0].dtype, Precision.REDUCED))
        if reduced is None or not reduced.passed:
            return ""
        return f"; it meets tier reduced, {self.precision.value} is owed"

    def _hint(self, found: FamilyError, pool: Pool, seat: Seat) -> str:
        if any(_has_poison(item) for item in pool.candidate):
            return "some elements were never written, or are NaN"
        if seat.state is not None and seat.state.missing:
            missing = ", ".join(seat.state.missing[:5])
            return f"keep the reference's names of parameters and buffers; these are missing: {missing}"
        if found.family == PERTURBED:
            return "the result ignores parameters or buffers that changed after construction"
        if any(not spec.is_contiguous for spec in self.workload.inputs):
            return "inputs are not contiguous; read them by their strides"
        return ""

    def _state_after(self, seat: Seat) -> None:
        """After one call, buffers that the reference rewrites are compared like outputs; all else is unchanged.

        Raises:
            Wrong: wrong-state.
        """
        initial = self.reference.initial
        if seat.state is None or not initial:
            return
        batch = self.reference.draw(self.seeds(1))
        seat.give_state(initial)
        self.reference.give_state(initial)
        seat.burst(batch, calls=1)
        mine = seat.state.read()
        self.reference.eager_once(batch)
        due = self.reference.read_state()
        self.reference.give_state(initial)
        seat.give_state(initial)
        for path in due:
            if path in self.workload.updated_state:
                self._updated(path, mine.get(path), due[path])
            elif path in mine and not torch.equal(_bytes(mine[path]), _bytes(initial[path])):
                raise Wrong(
                    Status.WRONG_STATE, f"{path} is changed by forward; the reference leaves it alone"
                )

    def _updated(self, path: str, mine: torch.Tensor | None, due: torch.Tensor) -> None:
        if mine is None:
            raise Wrong(Status.WRONG_STATE, f"buffer {path} is missing; the reference updates it")
        wide = due.double() if due.is_floating_point() else due
        found = correctness.judge(Pool([mine], [due], [wide]), "task", path, 8 * self.allowed(torch.float32))
        self.errors.append(found)
        if not found.passed:
            detail = f"buffer {path} after one call: {found.note}"
            raise Wrong(Status.WRONG_STATE, detail, "update it as the reference does", tuple(self.errors))

    def timed(self, seat: Seat, batch: torch.Tensor, bursts: dict[str, Burst]) -> None:
        """Every output that was timed is compared with eager's on the same inputs; some also with the twin's.

        Raises:
            Wrong: one differs.
        """
        count = seat.inputs.count
        mine, eager = (
            [seat.outputs.views(bursts[arm].outputs, call) for call in range(count)]
            for arm in ("candidate", "eager")
        )
        for place, spec in enumerate(self.workload.outputs):
            pairs = [(one[place], due[place]) for one, due in zip(mine, eager, strict=True)]
            if spec.numel < correctness.POOLED_ELEMENTS:
                # A single small result may be nearly zero by luck, and then any rounding looks large.
                known = [(item, item) for item in self._typical.get(place, [])]
                ones, dues = zip(*pairs, *known, strict=True)
                pairs = [(torch.stack(ones), torch.stack(dues))]
            for one, due in pairs:
                self._timed_one(place, one, due)
        if secrets.randbelow(1000) < 1000 * ORACLE_ROUNDS and not self.workload.updated_state:
            self._oracle(batch, seat, mine, eager)

    def _oracle(
        self, batch: torch.Tensor, seat: Seat, mine: list[list[torch.Tensor]], eager: list[list[torch.Tensor]]
    ) -> None:
        """Some timed calls against the float64 twin: one, or enough to pool small outputs."""
        calls = min(self.draws("task"), len(mine))
        first = secrets.randbelow(len(mine) - calls + 1)
        twin = self.reference.twin(batch[first * seat.inputs.step :], calls)
        for place, spec in enumerate(self.workload.outputs):
            pool = Pool()
            for call in range(calls):
                pool.add(mine[first + call][place], eager[first + call][place], twin[call][place])
            if spec.numel < correctness.POOLED_ELEMENTS:
                for item in self._typical.get(place, []):
                    pool.add(item, item, item.double() if item.is_floating_point() else item)
            self._must_pass(place, pool, self.allowed(pool.eager[0].dtype))

    def _timed_one(self, place: int, candidate: torch.Tensor, due: torch.Tensor) -> None:
        if place in self._positions and not candidate.is_floating_point():
            if not ties.same_positions(candidate, due):
                raise Wrong(
                    Status.WRONG_VALUES, f"a timed call, output[{place}]: other positions than eager's"
                )
            return
        known = [
            item.rms_eager or 0.0
            for item in self.errors
            if item.family == "task" and item.output == f"output[{place}]"
        ]
        # Both may be off by as much as either may be off from the twin.
        allowed = 3 * max([self.allowed(candidate.dtype), *known])
        if not correctness.roughly_equal(candidate, due, allowed):
            wide = (
                due.to(torch.complex128)
                if due.is_complex()
                else due.double()
                if due.is_floating_point()
                else due
            )
            self._must_pass(place, Pool([candidate], [due], [wide]), allowed)

    def _must_pass(self, place: int, pool: Pool, allowed: float) -> None:
        found = self._judged(pool, "timed", place, allowed)
        if found is not None and not found.passed:
            raise Wrong(
                Status.WRONG_VALUES,
                f"a timed call, output[{place}]: {found.note}",
                "results must not depend on earlier calls, or on work that goes on after forward has returned",
                tuple(self.errors),
            )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)


def _has_poison(tensor: torch.Tensor) -> bool:
    if not tensor.numel():
        return False
    if tensor.is_floating_point() or tensor.is_complex():
        return bool(tensor.isnan().any())
    width = tensor.element_size()
    poison = torch.full((width,), POISON, dtype=torch.uint8).view(tensor.dtype if width > 1 else torch.uint8)
    return bool((correctness.bits(tensor) == poison.to(tensor.device)).any())
