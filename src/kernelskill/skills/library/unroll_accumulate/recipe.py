"""More independent registers in flight: accumulators in reductions, several vectors in maps."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "unroll-accumulate"


def _accumulators(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    region = kernel.region
    if region is None or region.is_map or region.is_strided:
        return ()
    return tuple(count for count in (4, 8, 1) if count != kernel.schedule.accumulators)


def _unroll(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    # Scans and pooling read and write register by register, as maps do.
    if kernel.region is not None and not kernel.region.is_map:
        return ()
    return tuple(count for count in (2, 4) if count != kernel.schedule.unroll)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel: accumulators of reductions, unrolling of maps."""
    return [
        *schedule_edits(program, facts, SKILL, "accumulators", _accumulators),
        *schedule_edits(program, facts, SKILL, "unroll", _unroll),
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
