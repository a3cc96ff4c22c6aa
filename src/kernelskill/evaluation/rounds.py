"""Paired rounds: every arm once per round, in shuffled order, on the same fresh inputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import torch

from kernelskill.evaluation.seat import Burst, Seat

LEAST_ROUNDS, MOST_ROUNDS = 8, 24
TIMED_S = 0.8
"""Seconds that one arm is timed for in a set of rounds (about)."""


@dataclass
class Measured:
    """Times of all arms in one process set."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    worker: dict[str, list[float]] = field(default_factory=dict)
    null_wall: list[float] = field(default_factory=list)
    null_worker: list[float] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)

    def times(self, arm: str) -> list[float]:
        """Milliseconds a call by the ranking clock: the larger of the judge's and the worker's own."""
        null_wall, null_worker = median(self.null_wall), median(self.null_worker)
        return [
            max(wall - null_wall, worker - null_worker, 1e-6)
            for wall, worker in zip(self.wall[arm], self.worker[arm], strict=True)
        ]

    def ratios(self, arm: str, over: str = "candidate") -> list[float]:
        """Per round, the arm's time over the candidate's."""
        return [base / mine for base, mine in zip(self.times(arm), self.times(over), strict=True)]

    @property
    def null_ms(self) -> float:
        """Transport cost of a call."""
        return median(self.null_wall)


def rounds_for(eager_ms: float, calls: int) -> int:
    """Number of rounds, fixed before anything is timed."""
    burst_s = max(1e-4, eager_ms * calls / 1e3)
    return max(LEAST_ROUNDS, min(MOST_ROUNDS, round(TIMED_S / burst_s)))


Check = Callable[[torch.Tensor, dict[str, Burst]], None]


def run_rounds(
    arms: dict[str, Seat],
    null: Seat,
    draw: Callable[[], torch.Tensor],
    rounds: int,
    order: random.Random,
    check: Check,
    warm_up: int = 2,
) -> Measured:
    """Time all arms.

    Args:
        arms: arm -> seat.
        null: a seat whose worker only copies a ready result.
        draw: gives a fresh private batch; every round (warm-up included) has its own.
        rounds: how many are kept.
        order: shuffles the arms.
        check: looks at the outputs of every round, warm-up included, between rounds.
        warm_up: rounds before those kept.

    Raises:
        WorkerFailure: an arm failed.
    """
    measured = Measured({arm: [] for arm in arms}, {arm: [] for arm in arms})
    seats = [*arms.items(), ("null", null)]
    for number in range(warm_up + rounds):
        batch = draw()
        order.shuffle(seats)
        bursts = {arm: seat.burst(batch, command="null" if arm == "null" else "run") for arm, seat in seats}
        check(batch, bursts)
        if number < warm_up:
            continue
        blank = bursts.pop("null")
        measured.null_wall.append(blank.wall_ms)
        measured.null_worker.append(blank.worker_ms)
        for arm, burst in bursts.items():
            measured.wall[arm].append(burst.wall_ms)
            measured.worker[arm].append(burst.worker_ms)
        candidate = bursts.get("candidate")
        if candidate is not None:
            measured.flags.update(candidate.flags)
    return measured
