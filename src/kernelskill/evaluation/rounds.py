"""Paired rounds: every arm once per round, in shuffled order, on the same fresh inputs.

All arms are treated alike: woken just before their burst, stopped right after it, so that none runs beside another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median, quantiles

import torch

from kernelskill.evaluation.contention import BUSY
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.seat import Burst, Seat
from kernelskill.records import Status

LEAST_ROUNDS, MOST_ROUNDS = 9, 25
WARM_UP = 2
LEAST_SHARE = 0.1
"""Share of the ready result's time that every call is taken to need at least."""
NO_OUTPUTS = torch.empty(0, dtype=torch.uint8)
MORE_ROUNDS = 1.0
"""Rounds added at most, as a share of those planned, in place of disturbed ones."""
CHECKED = frozenset({"candidate", "eager"})
"""Arms whose outputs are looked at; those of others would only fill memory."""
UNTRUSTED = frozenset({"candidate", "base"})
"""Arms whose waiting may be their own doing; it decides nothing about what is kept."""
LATE_MS, LATE_SHARE = 1.0, 0.1
"""Processor time after the answer that is still taken for tidying up: per burst, or as a share of the burst."""
PROCESSORS_OVER = 0.3
"""Processors beyond the threads given that are still taken for bookkeeping."""


@dataclass
class Measured:
    """Times of all arms in one process set."""

    calls: int
    wall: dict[str, list[float]] = field(default_factory=dict)
    worker: dict[str, list[float]] = field(default_factory=dict)
    null_wall: list[float] = field(default_factory=list)
    null_worker: list[float] = field(default_factory=list)
    late: dict[str, list[float]] = field(default_factory=dict)
    processors: dict[str, list[float]] = field(default_factory=dict)
    slowdown: dict[str, list[float]] = field(default_factory=dict)
    clock_mhz: dict[str, list[float]] = field(default_factory=dict)
    dropped: int = 0
    """Disturbed rounds that were left out."""
    flags: set[str] = field(default_factory=set)

    def add(self, bursts: dict[str, Burst]) -> None:
        """One round."""
        for arm, burst in bursts.items():
            if arm == "null":
                self.null_wall.append(burst.wall_ms)
                self.null_worker.append(burst.worker_ms)
                continue
            self.wall.setdefault(arm, []).append(burst.wall_ms)
            self.worker.setdefault(arm, []).append(burst.worker_ms)
            self.late.setdefault(arm, []).append(burst.late_ms)
            self.processors.setdefault(arm, []).append(burst.processors)
            self.slowdown.setdefault(arm, []).append(burst.slowdown)
            self.clock_mhz.setdefault(arm, []).append(burst.clock_mhz)
            if burst.throttled:
                self.flags.add(f"the device was throttled in rounds that count: {burst.throttled}")
            if arm == "candidate":
                self.flags.update(burst.flags)

    def times(self, arm: str) -> list[float]:
        """Milliseconds a call by the ranking clock.

        The worker's own clock, which the transport does not disturb, moved up by as much as the judge's clock is above
        it: so their median is never below what the judge saw, whatever a worker says.
        """
        null_wall, null_worker = median(self.null_wall), median(self.null_worker)
        seen = median(self.wall[arm]) - null_wall
        said = [worker - null_worker for worker in self.worker[arm]]
        unsaid = max(0.0, seen - median(said))
        # What lies within the transport's own cost cannot be told from it; of single calls that is most, and even.
        told = LEAST_SHARE * null_wall
        least = max(min(told, scatter(self.null_wall)) if self.calls == 1 else told, 1e-6)
        return [max(value + unsaid, least) for value in said]

    def ratios(self, arm: str, over: str = "candidate") -> list[float]:
        """Per round, the arm's time over the candidate's."""
        return [base / mine for base, mine in zip(self.times(arm), self.times(over), strict=True)]

    def sure_ratios(self, arm: str, over: str = "candidate") -> list[float]:
        """As `ratios`, without what the arm's waiting for a processor may have added to its time."""
        pairs = zip(self.ratios(arm, over), self.slowdown[arm], strict=True)
        return [ratio / slowdown for ratio, slowdown in pairs]

    @property
    def busy_ratio(self) -> float:
        """Waiting of the stock arms for a processor, as a share of what they computed; 0 on a quiet machine."""
        stock = [value for arm, values in self.slowdown.items() if arm not in UNTRUSTED for value in values]
        return median(stock) - 1 if stock else 0.0

    @property
    def null_ms(self) -> float:
        """Transport cost of a call."""
        return median(self.null_wall)

    def left_nothing(self, arm: str, late_ms: float) -> None:
        """Whether an arm's work was over when it answered, but for so many milliseconds.

        Raises:
            WorkerFailure: it was not.
        """
        burst_ms = median(self.wall[arm]) * self.calls
        if late_ms > max(LATE_MS, LATE_SHARE * burst_ms):
            detail = f"it goes on computing after it has answered ({late_ms:.1f} ms per burst of {burst_ms:.1f} ms)"
            hint = "wait for every thread, process and stream before forward returns"
            raise WorkerFailure(Status.INTEGRITY, detail, hint)

    def honest(self, arm: str, threads: int) -> None:
        """Whether an arm worked only while it was asked to, and on no more processors than it was given.

        Raises:
            WorkerFailure: it did not.
        """
        self.left_nothing(arm, median(self.late[arm]))
        busy = median(self.processors[arm])
        if busy > threads + PROCESSORS_OVER:
            detail = f"it keeps {busy:.1f} processors busy; {threads} are given"
            raise WorkerFailure(
                Status.INTEGRITY, detail, "use omp_get_max_threads() or torch.get_num_threads()"
            )


def scatter(times: Sequence[float]) -> float:
    """Distance between the quartiles."""
    low, _, high = quantiles(times, n=4)
    return high - low


def rounds_for(eager_ms: float, calls: int, timed_s: float, least: int = LEAST_ROUNDS) -> int:
    """Number of rounds, fixed before anything is timed; odd, so that the median is one of them.

    Args:
        eager_ms: time of one call of the slowest arm, about.
        calls: calls in a burst.
        timed_s: seconds that one arm is timed for, about.
        least: how many in any case.
    """
    burst_s = max(1e-4, eager_ms * calls / 1e3)
    return max(least, min(MOST_ROUNDS, round(timed_s / burst_s) | 1))


Check = Callable[[torch.Tensor, dict[str, Burst]], None]
Prepare = Callable[[Seat], None]


def run_rounds(
    arms: dict[str, Seat],
    draw: Callable[[], torch.Tensor],
    rounds: int,
    order: random.Random,
    check: Check,
    prepare: Prepare | None = None,
) -> Measured:
    """Time all arms.

    Args:
        arms: arm -> seat; eager's worker is also asked to hand out a ready result, which is what the transport costs.
        draw: gives a fresh private batch; every round (warm-up included) has its own.
        rounds: how many are kept, after `WARM_UP` more.
        order: shuffles the arms.
        check: looks at the outputs of every round, warm-up included, between rounds.
        prepare: puts a seat into the state that every burst starts from.

    Raises:
        WorkerFailure: an arm failed.
    """
    kept: list[dict[str, Burst]] = []
    seats = [*arms.items(), ("null", arms["eager"])]
    most = rounds + round(MORE_ROUNDS * rounds)
    try:
        for number in range(WARM_UP + most):
            batch = draw()
            order.shuffle(seats)
            bursts = {}
            for arm, seat in seats:
                command = "null" if arm == "null" else "run"
                seat.ready(command)
                if prepare is not None:
                    prepare(seat)
                burst = seat.burst(batch, command=command, rest=True)
                bursts[arm] = burst if arm in CHECKED else replace(burst, outputs=NO_OUTPUTS)
            check(batch, bursts)
            if number >= WARM_UP:
                kept.append({arm: replace(burst, outputs=NO_OUTPUTS) for arm, burst in bursts.items()})
            del batch, bursts
            if sum(not _is_disturbed(item) for item in kept) >= rounds:
                break
    finally:
        for _, seat in seats:
            seat.wake()
    return _summed(kept, rounds, arms["eager"].inputs.count)


def _summed(played: list[dict[str, Burst]], rounds: int, calls: int) -> Measured:
    """The undisturbed rounds if there are enough of them, else all. Times are not looked at."""
    calm = [bursts for bursts in played if not _is_disturbed(bursts)]
    chosen = calm if len(calm) >= min(rounds, LEAST_ROUNDS) else played
    measured = Measured(calls, dropped=len(played) - len(chosen))
    for bursts in chosen:
        measured.add(bursts)
    return measured


def _is_disturbed(bursts: dict[str, Burst]) -> bool:
    if any(burst.throttled for burst in bursts.values()):
        return True
    return any(
        burst.slowdown > 1 + BUSY or burst.late_ms > LATE_MS
        for arm, burst in bursts.items()
        if arm not in UNTRUSTED and arm != "null"
    )
