"""How many elements are worth a thread of their own."""

from __future__ import annotations

import math

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "tune-grain"
GRAINS = (4096, 65536, 1024, 262144)


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Grains at which another number of threads would share the kernel."""
    threads = facts.get("threads")
    region = kernel.region
    if not isinstance(threads, int) or threads < 2 or region is None or kernel.schedule.threads == 1:
        return ()
    elements = math.prod(axis.size for axis in region.axes)

    def shared(grain: int) -> int:
        return min(threads, max(1, elements // grain))

    return tuple(grain for grain in GRAINS if shared(grain) != shared(kernel.schedule.grain))


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "grain", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
