"""Threads that pay for themselves."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "tune-threads"


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Fewer threads, down to one: opening a parallel region costs microseconds that a short kernel never earns back."""
    threads = facts.get("threads")
    most = int(threads) if isinstance(threads, int | float) else 1
    return tuple(count for count in (1, most // 2) if 1 <= count < most)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "threads", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
