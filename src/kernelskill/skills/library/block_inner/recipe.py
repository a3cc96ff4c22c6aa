"""Another number of rows folded at a time."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "block-inner"


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Blocks from two registers up to what the first-level cache holds."""
    if kernel.region is None or not kernel.region.is_strided:
        return ()
    return tuple(block for block in (64, 128, 512, 1024) if block != kernel.schedule.block)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "block", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
