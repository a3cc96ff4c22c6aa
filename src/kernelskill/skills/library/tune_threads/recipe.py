"""Threads that pay for themselves."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "tune-threads"
FASTER = 1.25
"""Speedup by all threads over one from which one thread is the last guess, not the first."""


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Fewer threads, down to one: opening a parallel region costs microseconds that a short kernel never earns back."""
    threads, efficiency = facts.get("threads"), facts.get("parallel_efficiency_ratio", kernel.name)
    most = int(threads) if isinstance(threads, int | float) else 1
    if kernel.schedule.threads:
        most = min(most, kernel.schedule.threads)
    fewer = [count for count in (1, most // 4, most // 2) if 1 <= count < most]
    if isinstance(efficiency, int | float) and efficiency * most > FASTER:
        fewer.reverse()
    return tuple(dict.fromkeys(fewer))


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "threads", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
