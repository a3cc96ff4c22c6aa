"""Edits of a kernel's schedule: what micro skills propose, and how they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule import Schedule
from kernelskill.records import Edit, Facts, Scalar

Choose = Callable[[Kernel, Facts], Sequence[Scalar]]
"""Kernel and facts -> values worth trying, best guess first; none where the skill has nothing to do."""


def schedule_edits(program: Program, facts: Facts, skill: str, field: str, choose: Choose) -> list[Edit]:
    """One edit per kernel whose schedule would change; the other values go into its space."""
    edits = []
    for kernel in program.kernels:
        current = getattr(kernel.schedule, field)
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
    unknown = set(edit.parameters) - set(Schedule.model_fields)
    if unknown:
        raise ProgramError(f"schedules have no {', '.join(sorted(unknown))}")
    try:
        schedule = Schedule.model_validate({**kernel.schedule.model_dump(), **edit.parameters})
    except ValidationError as error:
        raise ProgramError(f"{edit.site}: {error.errors()[0]['msg']}") from error
    changed = kernel.model_copy(update={"schedule": schedule, "skills": (*kernel.skills, edit.skill)})
    kernel_function(changed)
    return program.with_kernel(changed)
