"""Stores that bypass the cache."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program, Template
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "stream-stores"


def _values(kernel: Kernel, facts: Facts) -> tuple[bool, ...]:
    """Only where whole registers are stored one after the other."""
    body = kernel.body
    region = body.epilogue if isinstance(body, Template) else body
    if region is None or not any(operand.strides[-1] == 1 for operand in region.outputs):
        return ()
    return (True,)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "nontemporal", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
