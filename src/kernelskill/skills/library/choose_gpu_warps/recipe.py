"""Another number of warps a program on a GPU."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "choose-gpu-warps"
LOW_OCCUPANCY = 0.5


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Neighbours of the number that it was compiled with; more first where occupancy is low."""
    now, occupancy = facts.get("warps", kernel.name), facts.get("occupancy_ratio", kernel.name)
    warps = int(now) if isinstance(now, int | float) and now else 4
    near = [count for count in (2 * warps, warps // 2, 4 * warps, warps // 4) if 1 <= count <= 32]
    if isinstance(occupancy, int | float) and occupancy > LOW_OCCUPANCY:
        near.sort()
    return tuple(near)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "gpu_num_warps", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
