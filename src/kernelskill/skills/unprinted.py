"""Edits that change a schedule and nothing of the text that is printed for it.

A schedule has fields that a kernel of that kind, or that target, has no use for: accumulators in a map, loads in flight
where there is no loop. A program with another value there would be judged as another one, and is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelskill.errors import ProgramError

if TYPE_CHECKING:
    from kernelskill.program.program import Kernel, Program

_WORDS = {"skills": (), "computes": ""}
"""Of a kernel: what is told of it, and not run."""


def is_unprinted(before: Program, after: Program) -> bool:
    """Whether two programs differ in schedules alone, and those of equal text on every target."""
    if (
        before.graph != after.graph
        or before.wrapper != after.wrapper
        or len(before.kernels) != len(after.kernels)
    ):
        return False
    pairs = zip(before.kernels, after.kernels, strict=True)
    changed = [(one, other) for one, other in pairs if _bare(one) != _bare(other)]
    return bool(changed) and all(
        _is_rescheduled(*pair) and _texts(pair[0]) == _texts(pair[1]) for pair in changed
    )


def _bare(kernel: Kernel) -> Kernel:
    return kernel.model_copy(update=_WORDS)


def _is_rescheduled(one: Kernel, other: Kernel) -> bool:
    # A cluster is another language, whose launches no text of Triton shows.
    clusters = one.schedule.gpu.cluster or other.schedule.gpu.cluster
    return not clusters and _bare(one) == _bare(other.model_copy(update={"schedule": one.schedule}))


def _texts(kernel: Kernel) -> tuple[object, ...]:
    """What is printed of it for each target; None where it cannot be."""
    from kernelskill.program import cpp, triton

    try:
        on_cpu = cpp.kernel_function(kernel)
    except ProgramError:
        on_cpu = None
    try:
        on_gpu = [(launch.function(), launch.call()) for launch in triton.kernel_function(kernel).launches]
    except ProgramError:
        on_gpu = None
    return on_cpu, on_gpu
