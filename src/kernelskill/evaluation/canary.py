"""A result that is plainly wrong, sent through the whole path: a judge that takes it judges nothing."""

from __future__ import annotations

from kernelskill.errors import WorkerError
from kernelskill.evaluation.arms import Table
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.trial import Trial
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import Candidate, Task

WRONG = """

class ModelNew({entry}):
    def forward(self, *args, **kwargs):
        import torch
        result = super().forward(*args, **kwargs)
        first = result[0] if isinstance(result, tuple) else result
        wrong = ~first if first.dtype is torch.bool else first + first.abs() + 1
        return (wrong, *result[1:]) if isinstance(result, tuple) else wrong
"""
"""The reference with |y| + 1 on top: x + 1 where the result is zero, and no less wrong where it is huge."""


def candidate(task: Task) -> Candidate | None:
    """The canary of a task; None where the reference is no module in source form."""
    reference = task.reference
    if reference.loader != "source" or reference.kind != "module":
        return None
    return Candidate(id="canary", source=reference.source + WRONG.format(entry=reference.entry))


def sing(table: Table, trial: Trial) -> None:
    """Judge the canary on the task's own inputs.

    Args:
        table: of the task.
        trial: one of its own.

    Raises:
        WorkerError: it passed.
        StockFailure: the reference failed.
    """
    bird = candidate(table.task)
    if bird is None:
        return
    try:
        seat = table.candidate(bird)
    except WorkerFailure:  # a reference may need what candidates do not get
        return
    try:
        seat.give_state(trial.reference.initial)
        trial.family(seat, "task", trial.reference.initial)
    except (Wrong, WorkerFailure):
        return
    finally:
        seat.close()
    raise WorkerError(
        f"{table.task.name}: a result that is off by more than one was taken for right; see docs/judge.md"
    )
