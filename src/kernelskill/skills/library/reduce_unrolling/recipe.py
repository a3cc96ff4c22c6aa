"""Fewer values alive at a time: less unrolling of maps, fewer accumulators of rows, narrower strided blocks."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "reduce-unrolling"


def _unroll(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    if kernel.region is not None and not kernel.region.is_map:
        return ()
    return tuple(count for count in (4, 2, 1) if count < kernel.schedule.unroll)


def _accumulators(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    region = kernel.region
    if region is None or region.is_map or region.is_strided:
        return ()
    return tuple(count for count in (4, 2, 1) if count < kernel.schedule.accumulators)


def _block(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    if kernel.region is None or not kernel.region.is_strided:
        return ()
    return tuple(block for block in (256, 128, 64) if block < kernel.schedule.block)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule holds more values at a time than it must."""
    return [
        *schedule_edits(program, facts, SKILL, "unroll", _unroll),
        *schedule_edits(program, facts, SKILL, "accumulators", _accumulators),
        *schedule_edits(program, facts, SKILL, "block", _block),
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
