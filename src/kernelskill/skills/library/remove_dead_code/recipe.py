"""Nodes whose results nobody uses go."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.rewrite.dead import dead_nodes, remove_dead
from kernelskill.records import Edit, Facts

SKILL = "remove-dead-code"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit that removes all dead nodes."""
    dead = dead_nodes(program.graph)
    if not dead:
        return []
    return [
        Edit(
            skill=SKILL, site=",".join(dead), action="remove", summary=f"{len(dead)} unused operators removed"
        )
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Remove what is dead.

    Raises:
        ProgramError: nothing is.
    """
    if not dead_nodes(program.graph):
        raise ProgramError("no operator is unused")
    return program.model_copy(update={"graph": remove_dead(program.graph)}).with_skill(SKILL)
