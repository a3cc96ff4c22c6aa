"""What a kernel's wrapper says of itself: what is computed, of which shapes, and the skills that shaped it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from kernelskill.program.arguments import spelled
from kernelskill.program.program import Kernel, Program
from kernelskill.records import TensorSpec

WIDTH = 106

Reads = Mapping[str, Sequence[TensorSpec]]
"""Kernel -> layouts of what it reads, in order of its arguments."""


def reads_of(program: Program) -> Reads:
    """What each kernel of a program is given."""
    calls = {node.op.removeprefix("kernel:"): node for node in program.graph.nodes}
    graph = program.graph
    return {
        kernel.name: [graph.spec(ref) for ref in calls[kernel.name].refs()]
        for kernel in program.kernels
        if kernel.name in calls
    }


def docstring(
    kernel: Kernel, inputs: Sequence[str], outputs: Sequence[str], reads: Sequence[TensorSpec]
) -> list[str]:
    """The lines of a wrapper's docstring, indented."""
    computes = kernel.computes or "one kernel"
    given = ", ".join(_operand(name, spec) for name, spec in zip(inputs, reads, strict=False))
    gives = ", ".join(_operand(name, spec) for name, spec in zip(outputs, kernel.outputs, strict=False))
    said = f'"""{computes[0].upper()}{computes[1:]}{f" of {given}" if given else ""}; gives {gives}.'
    lines = [line.replace("\0", " ") for line in textwrap.wrap(said, WIDTH)]
    skills = ", ".join(dict.fromkeys(kernel.skills))
    if skills:
        lines += ["", *textwrap.wrap(f"Skills: {skills}.", WIDTH), '"""']
    elif len(lines) > 1:
        lines.append('"""')
    else:
        lines[-1] += '"""'
    return [f"    {line}".rstrip() for line in lines]


def _operand(name: str, spec: TensorSpec) -> str:
    # An operand is never parted: its spaces are not where lines may end.
    return f"{name} {spec.dtype} {spelled(spec.shape)}".replace(" ", "\0")
