"""The whole program, replayed as one CUDA graph."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.records import Edit, Facts

SKILL = "cuda-graphs"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit, for a program that is not wrapped yet."""
    if program.wrapper:
        return []
    what = f"{len(program.kernels)} kernels and what is beside them" if program.kernels else "the reference"
    return [Edit(skill=SKILL, site="forward", action="capture", summary=f"{what} replayed as one CUDA graph")]


def apply(program: Program, edit: Edit) -> Program:
    """Wrap the program.

    Raises:
        ProgramError: it is wrapped already.
    """
    if program.wrapper:
        raise ProgramError(f"a program under {program.wrapper} cannot be captured")
    return program.model_copy(update={"wrapper": "graph"}).with_skill(SKILL)
