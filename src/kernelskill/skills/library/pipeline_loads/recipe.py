"""Loads of later iterations in flight ahead of a kernel's loop on a GPU."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program import triton
from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts

SKILL = "pipeline-loads"
STAGES = (3, 2, 4, 1)


def _values(kernel: Kernel, facts: Facts) -> tuple[int, ...]:
    """Stages that change what is printed: a kernel without a loop over its row has none."""
    now = _text(kernel)
    return tuple(count for count in STAGES if _text(_staged(kernel, count)) != now)


def _staged(kernel: Kernel, count: int) -> Kernel:
    gpu = kernel.schedule.gpu.model_copy(update={"num_stages": count})
    return kernel.model_copy(update={"schedule": kernel.schedule.model_copy(update={"gpu": gpu})})


def _text(kernel: Kernel) -> str:
    try:
        return "".join(launch.function() for launch in triton.kernel_function(kernel).launches)
    except ProgramError:
        return ""


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "gpu_num_stages", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
