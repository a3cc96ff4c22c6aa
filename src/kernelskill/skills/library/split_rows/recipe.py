"""Rows shared out among threads."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program, Template
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "split-rows"


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Share each row, or stop sharing it."""
    if not _has_rows(kernel):
        return ()
    return (2,) if kernel.schedule.split in (0, 1) else (1,)


def _has_rows(kernel: Kernel) -> bool:
    """Whether rows are contiguous and their parts can be put together: not the parts of a running product."""
    body = kernel.body
    if isinstance(body, Template):
        inner = body.epilogue is not None and body.epilogue.axes[-1].role == "reduce"
        return body.name == "scan" and body.parameters["fold"] == "sum" and inner
    return not body.is_map and not body.is_strided


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "split", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
