"""Edits of a kernel's schedule: what micro skills propose, and how they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

from kernelskill.errors import ProgramError
from kernelskill.program import cpp, triton
from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule import GpuSchedule, Schedule
from kernelskill.records import Edit, Facts, Scalar

Choose = Callable[[Kernel, Facts], Sequence[Scalar]]
"""Kernel and facts -> values worth trying, best guess first; none where the skill has nothing to do."""


GPU = "gpu_"
"""What fields of the schedule on a GPU begin with, in edits."""


def schedule_edits(program: Program, facts: Facts, skill: str, field: str, choose: Choose) -> list[Edit]:
    """One edit per kernel whose schedule would change; the other values go into its space.

    Args:
        program: whose kernels.
        facts: what is known of them.
        skill: who proposes.
        field: of `Schedule`, or `gpu_` and one of `GpuSchedule`.
        choose: values worth trying.
    """
    edits = []
    for kernel in program.kernels:
        current = _current(kernel.schedule, field)
        values = [value for value in choose(kernel, facts) if value != current]
        if values:
            edits.append(
                Edit(
                    skill=skill,
                    site=kernel.name,
                    action=f"schedule.{field}",
                    parameters={field: values[0]},
                    space={field: tuple(values)},
                    summary=f"{kernel.name}: {field} {current} -> {values[0]}",
                )
            )
    return edits


def apply_schedule(program: Program, edit: Edit) -> Program:
    """The program with one kernel scheduled anew.

    Raises:
        ProgramError: no such kernel or field, or the kernel cannot be printed that way.
    """
    try:
        kernel = program.kernel(edit.site)
    except KeyError:
        raise ProgramError(f"there is no kernel {edit.site}") from None
    known = {*Schedule.model_fields, *(f"{GPU}{name}" for name in GpuSchedule.model_fields)} - {"gpu"}
    unknown = set(edit.parameters) - known
    if unknown:
        raise ProgramError(f"schedules have no {', '.join(sorted(unknown))}")
    on_gpu = {
        name.removeprefix(GPU): value for name, value in edit.parameters.items() if name.startswith(GPU)
    }
    others = {name: value for name, value in edit.parameters.items() if not name.startswith(GPU)}
    before = kernel.schedule.model_dump()
    try:
        schedule = Schedule.model_validate({**before, **others, "gpu": {**before["gpu"], **on_gpu}})
    except ValidationError as error:
        raise ProgramError(f"{edit.site}: {error.errors()[0]['msg']}") from error
    changed = kernel.model_copy(update={"schedule": schedule, "skills": (*kernel.skills, edit.skill)})
    if on_gpu:
        triton.kernel_function(changed)
    else:
        cpp.kernel_function(changed)
    return program.with_kernel(changed)


def _current(schedule: Schedule, field: str) -> Scalar:
    owner = schedule.gpu if field.startswith(GPU) else schedule
    value: Scalar = getattr(owner, field.removeprefix(GPU))
    return value
