"""Another number of rows that a program on a GPU folds side by side."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Region
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.program.triton.addresses import up_to_power_of_two
from kernelskill.program.triton.plan import LONGEST_BESIDE, row_plan, scan_plan
from kernelskill.records import Edit, Facts

SKILL = "batch-gpu-rows"
MOST = 128
LARGEST = 16384
"""Elements of a tile, beyond which its threads spill."""


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Powers of two next to what the printer takes now, more of them first."""
    body = kernel.body
    if isinstance(body, Region):
        if body.is_map:
            return ()
        region, plan = body, row_plan(body, kernel.schedule.gpu)
    elif body.name == "scan" and body.prologue is not None:
        region = body.prologue
        plan = scan_plan(region, int(body.parameters["length"]), kernel.schedule.gpu)
    else:
        return ()
    is_shared = kernel.schedule.gpu.split > 1
    if plan.shape == "line" and (plan.length > LONGEST_BESIDE or is_shared):
        return ()
    most = min(MOST, up_to_power_of_two(region.rows))
    held = up_to_power_of_two(plan.length) if plan.shape != "tall" else plan.block
    near = (2 * plan.rows, 4 * plan.rows, plan.rows // 2, plan.rows // 4)
    return tuple(count for count in near if 1 <= count <= most and count * held <= LARGEST)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "gpu_rows", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
