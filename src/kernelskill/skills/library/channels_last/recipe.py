"""Convolutions on channels-last data, converted once at the head of each chain."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.rewrite.layout import channels_last, convolutions
from kernelskill.records import Edit, Facts

SKILL = "channels-last"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit for all convolutions that gain, in a program whose wrapper is not the stock compiler's."""
    found = convolutions(program.graph)
    if not found or program.wrapper == "compile":
        return []
    summary = f"{len(found)} convolution{'s' * (len(found) > 1)} on channels-last data"
    return [Edit(skill=SKILL, site=",".join(found), action="convert", summary=summary)]


def apply(program: Program, edit: Edit) -> Program:
    """Convert the graph.

    Raises:
        ProgramError: no convolution is left to convert.
    """
    graph = channels_last(program.graph)
    if graph == program.graph:
        raise ProgramError("no convolution is left to convert")
    return program.model_copy(update={"graph": graph}).with_skill(SKILL)
