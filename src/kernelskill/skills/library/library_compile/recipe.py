"""The reference under torch.compile, as a candidate of its own."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.records import Edit, Facts

SKILL = "library-compile"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit, for a program that has no kernels yet."""
    if program.wrapper or program.kernels:
        return []
    return [Edit(skill=SKILL, site="forward", action="wrap", summary="the reference under torch.compile")]


def apply(program: Program, edit: Edit) -> Program:
    """Wrap the reference.

    Raises:
        ProgramError: the program has kernels, or is wrapped already.
    """
    if program.wrapper or program.kernels:
        raise ProgramError("torch.compile wraps the reference as it is, not a program of kernels")
    return program.model_copy(update={"wrapper": "compile"}).with_skill(SKILL)
