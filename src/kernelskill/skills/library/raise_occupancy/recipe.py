"""Fewer values a thread on a GPU, by a smaller tile or by more warps on the same tile, so that more programs fit."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program import triton
from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule
from kernelskill.records import Edit, Facts, Scalar

SKILL = "raise-occupancy"
MOST_WARPS = 16
SMALLEST_TILE = 128


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel: its tile halved at the same warps, or twice the warps where the tile is derived."""
    return [edit for kernel in program.kernels if (edit := _edit(kernel, facts)) is not None]


def _edit(kernel: Kernel, facts: Facts) -> Edit | None:
    warps, tile = _warps(kernel, facts), _tile(kernel)
    more = tuple(count for count in (2 * warps, 4 * warps) if count <= MOST_WARPS)
    if tile is not None and tile // 2 >= SMALLEST_TILE:
        parameters: dict[str, Scalar] = {"gpu_block": tile // 2, "gpu_num_warps": warps}
        tiles = tuple(size for size in (tile // 2, tile // 4) if size >= SMALLEST_TILE)
        space: dict[str, tuple[Scalar, ...]] = {"gpu_block": tiles, "gpu_num_warps": (warps, *more)}
    elif more:
        parameters, space = {"gpu_num_warps": more[0]}, {"gpu_num_warps": more}
    else:
        return None
    told = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return Edit(
        skill=SKILL, site=kernel.name, action="relax", parameters=parameters, space=space,
        summary=f"{kernel.name}: {told}",
    )  # fmt: skip


def _warps(kernel: Kernel, facts: Facts) -> int:
    """Warps that it was compiled with, was asked to have, or would be printed with."""
    compiled = facts.get("warps", kernel.name)
    if isinstance(compiled, int) and compiled:
        return compiled
    try:
        return kernel.schedule.gpu.num_warps or triton.kernel_function(kernel).launches[0].warps
    except ProgramError:
        return kernel.schedule.gpu.num_warps or 4


def _tile(kernel: Kernel) -> int | None:
    """Elements that a program of a map holds; None where rows decide."""
    region = kernel.region
    return (kernel.schedule.gpu.block or 1024) if region is not None and region.is_map else None


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
