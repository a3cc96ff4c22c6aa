"""Long rows held on chip by a cluster of blocks, in CUDA C++."""

from __future__ import annotations

from kernelskill.program.cuda.clusters import CAPABILITY, LONGEST_BLOCK, fitting
from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "cuda-cluster-rows"
FIELD = "gpu_cluster"


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Sizes of clusters that hold a row; with one that does, 0 goes back to Triton."""
    capability = facts.get("compute_capability")
    able = isinstance(capability, int) and capability >= CAPABILITY
    if not able or kernel.region is None or kernel.region.row_length <= LONGEST_BLOCK:
        return ()
    sizes = fitting(kernel)
    return (*sizes, 0) if sizes and kernel.schedule.gpu.cluster else sizes


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose rows fit a cluster."""
    return schedule_edits(program, facts, SKILL, FIELD, _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or no cluster of that size holds its rows.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
