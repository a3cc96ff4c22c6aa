"""Parameters and buffers after calls: what the reference rewrites is compared like results, all else must stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelskill.evaluation import correctness
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import Status

if TYPE_CHECKING:
    from kernelskill.evaluation.trial import Trial

LEEWAY = 8
"""Updates of a buffer are sums of sums: so many times the allowance of one result."""


def keep(trial: Trial, seat: Seat, batch: torch.Tensor | None = None, calls: int = 1) -> None:
    """Compare a candidate's state with the reference's after the same calls; both have the initial state afterwards.

    Args:
        trial: what is judged.
        seat: the candidate's.
        batch: inputs of calls that it has just run; default: one call, which it is asked for here.
        calls: how many of them.

    Raises:
        Wrong: wrong-state.
        WorkerFailure: the candidate failed.
        StockFailure: the reference failed.
    """
    initial = trial.reference.initial
    if seat.state is None or not initial:
        return
    if batch is None:
        batch = trial.reference.draw(trial.seeds(1))
        seat.warm()
        seat.give_state(initial)
        seat.burst(batch, calls=1)
    seat.wake()
    mine = seat.state.read()
    due = trial.reference.state_after(batch, calls)
    truth = trial.reference.twin_state_after(batch, calls) if trial.workload.updated_state else {}
    for path in due:
        if path in trial.workload.updated_state:
            _updated(trial, path, mine.get(path), due[path], truth.get(path))
        elif path in mine and not torch.equal(_bytes(mine[path]), _bytes(initial[path])):
            raise Wrong(Status.WRONG_STATE, f"{path} is changed by forward; the reference leaves it alone")
    seat.give_state(initial)


def _updated(
    trial: Trial, path: str, mine: torch.Tensor | None, due: torch.Tensor, truth: torch.Tensor | None
) -> None:
    """One rewritten buffer. Eager's own is the truth where the twin leaves it as it was: it cannot follow all code."""
    if mine is None:
        raise Wrong(Status.WRONG_STATE, f"buffer {path} is missing; the reference updates it")
    if truth is None or torch.equal(_bytes(truth), _bytes(trial.reference.initial[path])):
        truth = due
    pool = Pool([mine], [due], [correctness.widened(truth)])
    found = correctness.judge(pool, "task", path, LEEWAY * trial.allowed(torch.float32))
    trial.errors.append(found)
    if not found.passed:
        detail = f"buffer {path} after calls on the same inputs: {found.note}"
        raise Wrong(Status.WRONG_STATE, detail, "update it as the reference does", tuple(trial.errors))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)
