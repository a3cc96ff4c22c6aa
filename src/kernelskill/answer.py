"""The text of a run's answer: the winner's source, or the reference under its best stock recipe."""

from __future__ import annotations

from kernelskill.errors import ProgramError, RunError
from kernelskill.program.cuda.graphed import around
from kernelskill.records import Run

COMPILED = {"compile": "self.compile()", "compile+graph": 'self.compile(mode="reduce-overhead")'}
"""Arm -> statement that ends the constructor."""
RECIPES = {
    "compile": "under torch.compile",
    "graph": "under a CUDA graph",
    "compile+graph": "under torch.compile with CUDA graphs",
}


def best_source(run: Run) -> str:
    """Source text of the answer.

    Raises:
        RunError: the run has not ended.
    """
    if run.result is None:
        raise RunError(f"run {run.id} has not ended; resume it with: kernelskill resume {run.id}")
    for attempt in run.attempts:
        if attempt.candidate.id == run.result.winner_id:
            return attempt.candidate.source
    reference, arm = run.task.reference, run.result.winner_arm
    source = reference.source or (run.workload.class_source if run.workload else "")
    entry = reference.entry or "Model"
    if not source:
        return f"# Best stock is the answer: {run.task.origin} {RECIPES.get(arm, 'as it is')}.\n"
    if arm == "graph":
        summary = f"Best stock is the answer: {entry} {RECIPES[arm]}."
        try:
            return around(source, entry, reference.kind, summary)
        except ProgramError as error:
            return f"{source.rstrip()}\n\n\n# {summary} But {error}.\nModelNew = {entry}\n"
    if arm not in RECIPES:
        ending = f"# Nothing beat the reference as it is.\nModelNew = {entry}\n"
    elif reference.kind == "module":
        ending = _wrapped(entry, arm)
    else:
        options = ', mode="reduce-overhead"' if arm == "compile+graph" else ""
        called = f"torch.compile({entry}{options})"
        ending = f"# Best stock is the answer: {entry} {RECIPES[arm]}.\nModelNew = {called}\n"
    return f"{source.rstrip()}\n\n\n{ending}"


def _wrapped(entry: str, arm: str) -> str:
    return (
        f'class ModelNew({entry}):\n    """Best stock is the answer: {entry} {RECIPES[arm]}."""\n'
        f"\n    def __init__(self, *args, **kwargs):\n"
        f"        super().__init__(*args, **kwargs)\n        {COMPILED[arm]}\n"
    )
