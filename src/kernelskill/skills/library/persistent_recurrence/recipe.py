"""A recurrence in one kernel for the CPU, whether a layer of the library or a loop that the graph spells out."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Program
from kernelskill.program.templates.recurrent_layers import fuse_layers, layers_of
from kernelskill.program.templates.unrolled_sites import fuse_unrolled, recurrences
from kernelskill.records import Edit, Facts

SKILL = "persistent-recurrence"
LAYER, LOOP = "layer", "loop"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit for each recurrent operator, and for each loop over time; none for a GPU, which has no recipe yet."""
    if program.wrapper or facts.get("target") == "cuda":
        return []
    layers = [
        Edit(
            skill=SKILL, site=node.name, action=LAYER, summary=f"{node.op.split('.')[1]} in a kernel a layer"
        )
        for node in program.graph.nodes
        if layers_of(node) is not None
    ]
    loops = [
        Edit(
            skill=SKILL,
            site=found.steps[0].product.name,
            action=LOOP,
            summary=f"{len(found.steps)} steps of {found.hidden} units in one kernel",
        )
        for found in recurrences(program)
    ]
    return [*layers, *loops]


def apply(program: Program, edit: Edit) -> Program:
    """Put the kernels in place.

    Raises:
        ProgramError: there is no such recurrence (any more), or the kernel is not made for it.
    """
    if edit.action not in {LAYER, LOOP}:
        raise ProgramError(f"{edit.action} at {edit.site}: no such action")
    made = fuse_layers(program, edit.site) if edit.action == LAYER else fuse_unrolled(program, edit.site)
    for kernel in made.kernels[len(program.kernels) :]:
        kernel_function(kernel)
    return made
