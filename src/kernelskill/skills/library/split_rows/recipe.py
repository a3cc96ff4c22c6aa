"""Rows shared out among threads."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "split-rows"


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Share each row, or stop sharing it."""
    region = kernel.region
    if region is None or region.is_map or region.is_strided:
        return ()
    return (2,) if kernel.schedule.split in (0, 1) else (1,)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "split", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
