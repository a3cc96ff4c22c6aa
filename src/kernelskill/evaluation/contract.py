"""What a caller may rely on beside the values of a single call.

Results outlive later calls and are memory of their own; the same inputs give the same result again; nothing rests on
what fresh memory happens to hold. Inputs A, B, A, C, D, ... go in; only when all calls have returned are the results
looked at, twice, with another pattern in fresh memory each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelskill.evaluation import correctness, ties
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.seat import Burst, Seat
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import Status

if TYPE_CHECKING:
    from kernelskill.evaluation.trial import Trial

MOST_CALLS = 16
"""Results that are held at a time: a ring of fewer buffers shows."""
PATTERNS = 2
OVERWRITTEN = "its result lies in memory that its next call writes again: copy it before calling again"


def keep(trial: Trial, seat: Seat) -> tuple[str, ...]:
    """Hold a candidate to the contract; what should be told about it where it may pass nevertheless.

    Where stock arms hand out one buffer as well (graphs on a GPU), a candidate may, and it is told.

    Raises:
        Wrong: it does not keep it.
        WorkerFailure: the candidate failed.
        StockFailure: the reference failed.
    """
    reference = trial.reference
    calls = min(MOST_CALLS, reference.layout.count)
    if calls < 2:
        return ()  # huge calls: memory holds no two of them
    order = [0, 1, 0, *range(2, calls)][:calls]
    step, draws = reference.layout.step, max(order) + 1
    fresh = reference.draw(trial.seeds(draws))
    due = reference.eager(fresh, draws)
    batch = torch.cat([fresh[which * step : (which + 1) * step] for which in order])
    errors = tuple(trial.errors)
    compared = 1 if trial.workload.updated_state else calls  # later calls start from another state
    for _ in range(PATTERNS):
        seat.warm()
        seat.give_state(reference.initial)
        burst = seat.burst(batch, command="held", calls=calls)
        lent = sorted(set(burst.flags) - set(reference.lends(fresh)))
        if lent:
            raise Wrong(
                Status.INTEGRITY, lent[0], "a result must be memory of its own, as the reference's is", errors
            )
        right = [
            alike(trial, seat.outputs.views(burst.outputs, call), due[order[call]])
            for call in range(compared)
        ]
        if all(right):
            continue
        if seat.device.name == "cuda" and _are_of(trial, seat, burst, calls, due):
            return (OVERWRITTEN,)
        raise Wrong(
            Status.WRONG_VALUES,
            f"call {right.index(False) + 1} of {calls}, looked at after all have returned, is not what it was",
            "a result must outlive later calls, and rest on nothing that fresh memory holds",
            errors,
        )
    return ()


def _are_of(trial: Trial, seat: Seat, burst: Burst, calls: int, due: list[list[torch.Tensor]]) -> bool:
    """Whether each result is one of those that are due, in whatever order."""
    rows = [seat.outputs.views(burst.outputs, call) for call in range(calls)]
    return all(any(alike(trial, row, other) for other in due) for row in rows)


def alike(trial: Trial, mine: list[torch.Tensor], due: list[torch.Tensor]) -> bool:
    """Whether results are eager's but for rounding, by the allowance for two results that may each be off."""
    return all(
        alike_one(trial, place, one, other) for place, (one, other) in enumerate(zip(mine, due, strict=True))
    )


def alike_one(trial: Trial, place: int, mine: torch.Tensor, due: torch.Tensor) -> bool:
    """The same for one output."""
    if trial.is_position(place, mine):
        return ties.same_positions(mine, due)
    allowed = trial.apart(place, mine.dtype)
    if correctness.roughly_equal(mine, due, allowed):
        return True
    # A single small result may be nearly zero by luck, and then any rounding looks large.
    known = [item.reshape(-1) for item in trial.typical(place)]
    one, other = torch.cat([mine.reshape(-1), *known]), torch.cat([due.reshape(-1), *known])
    found = trial.judged(Pool([one], [other], [correctness.widened(other)]), "held", place, allowed)
    return found is None or found.passed
