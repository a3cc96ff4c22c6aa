"""Another tile of a program on a GPU."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "size-gpu-tile"
SIZES = (4096, 1024, 8192, 2048, 512)
LONGEST = 32768


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Tiles of a map; of rows that do not fit one tile, how much of a row is taken at a time."""
    region = kernel.region
    if region is None or region.is_map:
        return SIZES
    return tuple(size for size in SIZES if size < region.row_length) if region.row_length > LONGEST else ()


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "gpu_block", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
