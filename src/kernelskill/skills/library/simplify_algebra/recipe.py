"""Identities that hold for all finite inputs: no-ops go, scales merge, powers become products."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.rewrite.simplify import simplify
from kernelskill.records import Edit, Facts

SKILL = "simplify-algebra"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit with all exact identities; its space allows those that round differently too."""
    edits = []
    for level in ("rounding", "exact"):
        _, changes = simplify(program.graph, level)
        if changes:
            sites = ",".join(dict.fromkeys(change.node for change in changes))
            rules = ", ".join(dict.fromkeys(change.rule for change in changes))
            edits.append(
                Edit(
                    skill=SKILL,
                    site=sites,
                    action="simplify",
                    parameters={"level": level},
                    space={"level": ("rounding", "exact")},
                    summary=f"{rules} ({level})",
                )
            )
    return edits


def apply(program: Program, edit: Edit) -> Program:
    """Simplify the graph.

    Raises:
        ProgramError: nothing is left to simplify.
    """
    graph, changes = simplify(program.graph, edit.parameters.get("level", "exact"))  # type: ignore[arg-type]
    if not changes:
        raise ProgramError("nothing is left to simplify")
    return program.model_copy(update={"graph": graph}).with_skill(SKILL)
