"""The clock that nothing can be hidden from: one call in flight, the next input not yet made."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

from kernelskill.evaluation.rounds import Measured
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.trial import Trial

CALLS = 7
SLACK_RATIO, SLACK_MS = 1.5, 0.4
"""How far the audit may be above the ranking time: switching between processes costs about so much a call."""


class Audit:
    """Looks at every new best of a task once; it flags, and never ranks."""

    def __init__(self) -> None:
        self._best_ms: float | None = None

    def look(self, measured: Measured, seat: Seat, null: Seat, trial: Trial, *, anew: bool = False) -> None:
        """Time a candidate with one call in flight if it is the fastest so far, or `anew`; flags `measured`.

        Raises:
            WorkerFailure: the candidate failed.
        """
        ranked_ms = median(measured.times("candidate"))
        if not anew and self._best_ms is not None and ranked_ms >= self._best_ms:
            return
        self._best_ms = ranked_ms
        side = trial.reference
        flag = one_at_a_time(seat, null, lambda: side.draw(trial.seeds(1)), ranked_ms, side.initial)
        measured.flags.update([flag] if flag else [])


def one_at_a_time(
    seat: Seat,
    null: Seat,
    draw: Callable[[], torch.Tensor],
    ranked_ms: float,
    initial: dict[str, torch.Tensor],
) -> str:
    """What should be told about a worker whose calls are revealed one by one; "" if nothing.

    Args:
        seat: the candidate's.
        null: a worker that only copies a ready result.
        draw: gives one fresh call.
        ranked_ms: its time by the ranking clock.
        initial: the state that every call starts from.

    Raises:
        WorkerFailure: the candidate failed.
    """
    mine, least = [], []
    for _ in range(CALLS):
        batch = draw()
        seat.give_state(initial)
        mine.append(seat.burst(batch, calls=1).wall_ms)
        least.append(null.burst(batch, command="null", calls=1).wall_ms)
    alone_ms = max(0.0, median(mine) - median(least))
    if alone_ms <= SLACK_RATIO * ranked_ms + SLACK_MS:
        return ""
    return f"one call at a time takes {alone_ms:.3f} ms, against {ranked_ms:.3f} ms as ranked: look at what it keeps"
