"""Rows shared out among programs on a GPU."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program, Template
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "share-gpu-rows"
PARTS = (4, 16, 2, 8, 64)


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """More parts, fewer, or none."""
    body = kernel.body
    if isinstance(body, Template):
        return (*PARTS, 1) if body.name == "scan" else ()
    return () if body.is_map else (*PARTS, 1)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "gpu_split", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
