"""One candidate before the judge: whether it is the same function."""

from __future__ import annotations

import random
import secrets

import torch

from kernelskill.evaluation import buffers, contract, correctness, hints, nonfinite, power, ties
from kernelskill.evaluation.among import Among, picked
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.families import FAMILIES, OVERFLOWING, perturbed, touched
from kernelskill.evaluation.reference import EXAMINED, FINITE, Due, ReferenceSide
from kernelskill.evaluation.rounds import LEAST_ROUNDS, WARM_UP
from kernelskill.evaluation.seat import Burst, Seat, results
from kernelskill.evaluation.secret import Secret
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import FamilyError, Labels, Precision, Status, Task, Workload

PERTURBED, TOUCHED = "perturbed-parameters", "touched-parameters"
"""All parameters moved; only one element in `families.TOUCHED_OF` of each, so that no sample of them tells."""
KERNELBENCH_TOLERANCE = {"kernelbench": 1e-4, "kernelbench-v0": 1e-2}
"""KernelBench's rule as it is, and as it was when most papers were written; 1e-2 for half precision in both."""
KERNELBENCH_HALF = 1e-2
ORACLE_ROUNDS = 0.15
"""Share of the timed rounds of which one call is also held against the float64 twin."""


class Trial:
    """Checks results of one candidate against the reference."""

    def __init__(
        self,
        workload: Workload,
        reference: ReferenceSide,
        task: Task,
        tolerance: str,
        secret: Secret,
    ) -> None:
        self.workload = workload
        self.reference = reference
        self.precision = task.precision
        self.frozen = task.weights == "frozen"
        self.tolerance = tolerance
        self.secret = secret
        inputs = sum(spec.numel for spec in workload.inputs)
        outputs = sum(spec.numel for spec in workload.outputs)
        self._longest = correctness.longest_sum(workload.graph, inputs, outputs)
        self._positions = ties.position_outputs(workload.graph)
        self._stricter = True
        self._typical: dict[int, list[torch.Tensor]] = {}
        """Eager's results on the task's own inputs, of small outputs: how large such results are."""
        self._rounds = 0
        self._sure = WARM_UP + 1 + secrets.randbelow(LEAST_ROUNDS)
        """Timed round that is looked at closely in any case."""
        self._placed: dict[int, list[int]] = {}
        """Positions in timed calls, of each output: differing from eager's, and all."""
        self._last: tuple[torch.Tensor, int, list[list[torch.Tensor]]] | None = None
        """Inputs and the candidate's results of the last family with another state."""
        self.among = Among(self)
        self.ranked_ms: float | None = None
        """Its time by the ranking clock, once that is known."""
        self.errors: list[FamilyError] = []
        self.flags: tuple[str, ...] = ()
        """What should be told though it decides nothing."""

    def seeds(self, count: int) -> list[int]:
        """Fresh input seeds."""
        return [self.secret.next() for _ in range(count)]

    def draws(self, family: str) -> int:
        """Calls of a family: enough to pool small outputs."""
        smallest = min((spec.numel for spec in self.workload.outputs), default=1)
        if smallest >= correctness.POOLED_ELEMENTS:
            return min(2, self.reference.layout.count)
        return EXAMINED if family == "task" else min(EXAMINED, self.reference.layout.count)

    def allowed(self, dtype: torch.dtype, precision: Precision | None = None, family: str = "") -> float:
        """Relative error that rounding may cost in an output of that type, at the precision owed or another."""
        of = correctness.overflow_allowance if family == OVERFLOWING else correctness.allowance
        return of(dtype, precision or self.precision, self._longest)

    @property
    def tier(self) -> str:
        """Strictest tier that every checked result met."""
        if self.precision in (Precision.MATCH, Precision.FP32):
            return self.precision.value
        return Precision.FP32.value if self._stricter else self.precision.value

    def families(self, seat: Seat, lot: int | None = None) -> None:
        """Compare on the task's own inputs and, by our own rule, on hidden families; KernelBench's knows none.

        Args:
            seat: the candidate's.
            lot: how many hidden families, drawn by lot; default: all.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
            StockFailure: the reference failed.
        """
        buffers.keep(self, seat)
        initial = self.reference.initial
        self.family(seat, "task", initial)
        for family in self.hidden(lot):
            self.hidden_family(seat, family)
        seat.give_state(initial)
        self.reference.give_state(initial)
        self.flags += contract.keep(self, seat)
        self.flags += nonfinite.told(self, seat)
        self.reference.device.trim()

    def again(self, seat: Seat, lot: int | None) -> None:
        """Hidden families, all or so many drawn by lot, after the candidate was timed.

        Who is right as long as he is examined, and counts calls to know when that is over, is found out here.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
            StockFailure: the reference failed.
        """
        try:
            for family in self.hidden(lot):
                self.hidden_family(seat, family)
        except Wrong as wrong:
            wrong.detail = f"once it had been timed: {wrong.detail}"
            raise
        seat.give_state(self.reference.initial)
        self.reference.give_state(self.reference.initial)

    def hidden(self, lot: int | None = None) -> list[str]:
        """Hidden families that say something about this task; all, or so many drawn by lot."""
        if self.tolerance != "relative":
            return []
        found = [family for family in FAMILIES if self.reference.places(family)]
        if self.reference.initial and not self.frozen:
            found += [TOUCHED, PERTURBED]  # few changes first: see `touched`
        if lot is None:
            return found
        return random.Random(self.secret.next()).sample(found, min(lot, len(found)))

    def hidden_family(self, seat: Seat, family: str) -> None:
        """Compare on a family that is not the task's own.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
            StockFailure: the reference failed.
        """
        initial = self.reference.initial
        change = {TOUCHED: touched, PERTURBED: perturbed}.get(family)
        if change is None:
            self.family(seat, family, initial)
            return
        rng = self.reference.device.generator(self.secret.next() >> 2)
        values = change(list(initial.values()), rng)
        self._with_other_state(seat, family, dict(zip(initial, values, strict=True)))

    def _with_other_state(self, seat: Seat, family: str, values: dict[str, torch.Tensor]) -> None:
        """A family with other parameters and buffers.

        Raises:
            Wrong: as `family`; labelled as frozen where the results are those of the old parameters.
        """
        try:
            self.family(seat, family, values)
        except Wrong as wrong:
            if self._last is not None:
                batch, calls, mine = self._last
                self.reference.give_state(self.reference.initial)
                old = self.reference.eager(batch, calls)
                if all(contract.alike(self, one, due) for one, due in zip(mine, old, strict=True)):
                    wrong.labels = Labels(kinds=("frozen-weights",))
            raise
        finally:
            self._last = None

    def family(self, seat: Seat, family: str, values: dict[str, torch.Tensor]) -> None:
        """Compare on fresh inputs of one family, with these parameters and buffers.

        Raises:
            Wrong: a gate failed.
            WorkerFailure: the candidate failed.
            StockFailure: the reference failed.
        """
        self.reference.device.give_way()
        seat.give_state(values)
        self.reference.give_state(values)
        for place, pool in enumerate(self._pools(seat, family, values)):
            if family == "task" and pool.eager[0].numel() < correctness.POOLED_ELEMENTS:
                self._typical[place] = pool.eager
            if family == "task" or correctness.finite_share(pool.twin) >= FINITE:
                self._gate(pool, family, place, seat)

    def _pools(self, seat: Seat, family: str, values: dict[str, torch.Tensor]) -> list[Pool]:
        """Results for each output; none where the reference refuses such values."""
        pools = [Pool() for _ in self.workload.outputs]
        total, count = self.draws(family), self.reference.layout.count
        for start in range(0, total, count):
            calls = min(count, total - start)
            batch = self.reference.draw(self.seeds(calls), family)
            due = self._due(batch, calls, family)
            if due is None:
                return []
            self.reference.device.trim()
            reset = (lambda: seat.give_state(values)) if self.workload.updated_state else None
            mine = results(seat, batch, calls, reset=reset)
            if values is not self.reference.initial:
                self._last = batch, calls, mine
            for rows in zip(mine, *due, strict=True):
                for pool, one, eager, twin in zip(pools, *rows, strict=True):
                    pool.add(one, eager, twin)
        return pools

    def _due(self, batch: torch.Tensor, calls: int, family: str) -> Due | None:
        """Eager's and the twin's results; None where the reference refuses such values."""
        try:
            return self.reference.due(batch, calls)
        except StockFailure as failure:
            if not self.reference.worker.alive:
                self.reference.revive(failure)
            if family == "task":
                detail = f"the reference fails on its own inputs: {failure.line}"
                raise Wrong(Status.UNTESTABLE, detail) from failure
            return None

    def _gate(self, pool: Pool, family: str, place: int, seat: Seat) -> None:
        name = f"output[{place}]"
        dtype = pool.eager[0].dtype
        allowed = self.allowed(dtype, family=family)
        found = self.judged(pool, family, place, allowed)
        if found is None:
            return
        if found.passed and self.tolerance == "relative":
            found = self._with_power(found, pool, family, place, allowed)
        self.errors.append(found)
        if not found.passed:
            raise Wrong(
                Status.WRONG_VALUES,
                f"{family} inputs, {name}: {found.note}{self._lesser_tier(pool, family, place)}",
                hints.of_wrong_values(
                    family,
                    other_state=family in (PERTURBED, TOUCHED),
                    pool=pool,
                    seat=seat,
                    workload=self.workload,
                ),
                tuple(self.errors),
            )
        if self._stricter and self.precision in (Precision.TF32, Precision.REDUCED):
            strict = self.judged(pool, family, place, self.allowed(dtype, Precision.FP32, family))
            self._stricter = strict is None or strict.passed

    def _with_power(
        self, found: FamilyError, pool: Pool, family: str, place: int, allowed: float
    ) -> FamilyError:
        """The same, with a note where the gate would take a wrong answer as well: then it proves nothing."""
        known = self.reference.powerless
        if (family, place) not in known:
            others = [*pool.eager[1:], pool.eager[0]] if len(pool.eager) > 1 else []
            known[family, place] = power.has_power(pool, others, allowed)
        what = known[family, place]
        return found.model_copy(update={"note": f"proves nothing: {what} would pass"}) if what else found

    def judged(self, pool: Pool, family: str, place: int, allowed: float) -> FamilyError | None:
        """The gates that fit this output; None where the family proves nothing about it."""
        name = f"output[{place}]"
        if place in self._positions and not pool.is_numeric:
            return None if family in ties.TIED_FAMILIES else ties.judge_positions(pool, family, name)
        if self.tolerance in KERNELBENCH_TOLERANCE:
            half = pool.eager[0].dtype in (torch.float16, torch.bfloat16)
            return correctness.allclose(
                pool, family, name, KERNELBENCH_HALF if half else KERNELBENCH_TOLERANCE[self.tolerance]
            )
        return correctness.judge(pool, family, name, allowed)

    def _lesser_tier(self, pool: Pool, family: str, place: int) -> str:
        if self.tolerance != "relative" or not pool.is_numeric or self.precision is Precision.REDUCED:
            return ""
        if family == OVERFLOWING:  # accuracy is not what it lacks
            return ""
        reduced = self.judged(pool, family, place, self.allowed(pool.eager[0].dtype, Precision.REDUCED))
        if reduced is None or not reduced.passed:
            return ""
        return f"; it meets tier reduced, {self.precision.value} is owed"

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
        own = self.among.checked(batch, mine, eager)
        if len(own) < count:
            if not own:
                return
            batch, count = picked(batch, seat.inputs.step, own), len(own)
            mine, eager = ([rows[call] for call in own] for rows in (mine, eager))
        for place, spec in enumerate(self.workload.outputs):
            pairs = [(one[place], due[place]) for one, due in zip(mine, eager, strict=True)]
            if spec.numel < correctness.POOLED_ELEMENTS:
                # A single small result may be nearly zero by luck, and then any rounding looks large.
                known = [(item, item) for item in self._typical.get(place, [])]
                ones, dues = zip(*pairs, *known, strict=True)
                pairs = [(torch.stack(ones), torch.stack(dues))]
            elif self._alike_at_once(place, pairs):
                continue
            for one, due in pairs:
                self._timed_one(place, one, due)
        self._rounds += 1
        if self._rounds != self._sure and secrets.randbelow(1000) >= 1000 * ORACLE_ROUNDS:
            return
        if self.workload.updated_state:
            buffers.keep(self, seat, batch, count)
            seat.rest()
        else:
            self._oracle(batch, seat, mine, eager)

    def _oracle(
        self, batch: torch.Tensor, seat: Seat, mine: list[list[torch.Tensor]], eager: list[list[torch.Tensor]]
    ) -> None:
        """Some timed calls against the float64 twin: one, or enough to pool small outputs."""
        self.reference.device.trim()
        calls = min(self.draws("task"), len(mine))
        first = secrets.randbelow(len(mine) - calls + 1)
        twin = self.reference.twin(batch[first * seat.inputs.step :], calls)
        for place in range(len(self.workload.outputs)):
            pool = Pool()
            for call in range(calls):
                pool.add(mine[first + call][place], eager[first + call][place], twin[call][place])
            self.with_typical(place, pool)
            self.must_pass(place, pool, self.allowed(pool.eager[0].dtype))

    def with_typical(self, place: int, pool: Pool) -> None:
        """Add eager's results on the task's own inputs to small ones, which alone may be nearly zero by luck."""
        for item in self.typical(place):
            pool.add(item, item, correctness.widened(item))

    def _timed_one(self, place: int, candidate: torch.Tensor, due: torch.Tensor) -> None:
        if self.is_position(place, candidate):
            seen = self._placed.setdefault(place, [0, 0])
            seen[0] += int((candidate != due).sum())
            seen[1] += due.numel()
            if not ties.few(*seen):
                detail = f"timed calls, output[{place}]: {seen[0]} of {seen[1]} positions are not eager's"
                raise Wrong(Status.WRONG_VALUES, detail)
            return
        allowed = self.apart(place, candidate.dtype)
        if not correctness.roughly_equal(candidate, due, allowed):
            wide = correctness.widened(due)
            self.must_pass(place, Pool([candidate], [due], [wide]), allowed)

    def _alike_at_once(self, place: int, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> bool:
        """Whether one look at the results of all calls is enough: on a GPU each look costs a wait for the device."""
        ones, dues = [one for one, _ in pairs], [due for _, due in pairs]
        if self.is_position(place, ones[0]):
            return False
        return correctness.all_roughly_equal(ones, dues, self.apart(place, ones[0].dtype))

    def apart(self, place: int, dtype: torch.dtype) -> float:
        """Relative error allowed between two results that may each be off from the twin."""
        name = f"output[{place}]"
        known = [
            item.rms_eager or 0.0 for item in self.errors if (item.family, item.output) == ("task", name)
        ]
        return 3 * max([self.allowed(dtype), *known])

    def typical(self, place: int) -> list[torch.Tensor]:
        """Eager's results on the task's own inputs where an output is small; else none."""
        return self._typical.get(place, [])

    def is_position(self, place: int, result: torch.Tensor) -> bool:
        """Whether an output holds positions, which near ties may change."""
        return place in self._positions and not result.is_floating_point()

    def must_pass(self, place: int, pool: Pool, allowed: float, family: str = "") -> None:
        """Hold results of a timed call to the gates.

        Raises:
            Wrong: one failed.
        """
        found = self.judged(pool, family or "timed", place, allowed)
        if found is not None and not found.passed:
            raise Wrong(
                Status.WRONG_VALUES,
                f"a timed call{f' on {family} inputs' if family else ''}, output[{place}]: {found.note}",
                "results must not depend on earlier calls, or on work that goes on after forward has returned",
                tuple(self.errors),
            )
