"""A template's operator in a graph becomes a kernel, with the point-wise neighbours that it can take along."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kernelskill.errors import ProgramError
from kernelskill.program.fusion import is_convex, replaced, taken_names
from kernelskill.program.identifiers import identifier
from kernelskill.program.naming import summary
from kernelskill.program.program import Kernel, Program, Template
from kernelskill.program.region import Region
from kernelskill.program.templates.pointwise import LOCALS, layouts, pointwise_region
from kernelskill.records import Graph, Json, Ref, TensorSpec


@dataclass(frozen=True)
class Core:
    """What a template computes, and where it stands in a graph."""

    template: str
    nodes: tuple[str, ...]
    """The operator and what it absorbs, without point-wise neighbours."""
    source: Ref
    """What it reads."""
    shape: tuple[int, ...]
    """How much of the source it reads."""
    result: Ref
    walked: frozenset[int]
    """Dimensions that it walks, of the source and of the result."""
    value: str
    """What its result is called in the epilogue."""
    title: str
    """A name for the kernel."""
    computes: str
    """What it computes, in words."""
    skill: str
    parameters: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Neighbours:
    """Point-wise work before and after a core."""

    nodes: frozenset[str]
    prologue: Region
    epilogue: Region
    reads: tuple[Ref, ...]
    """What the prologue reads, then what the epilogue reads besides the core's result; in order of their operands."""
    operand: str
    """The epilogue's operand that is the core's result."""
    result: Ref


def neighbours(graph: Graph, core: Core, before: list[str], after: list[str]) -> Neighbours:
    """The regions of nodes in front of and behind a core.

    Raises:
        ProgramError: they do not make two maps, or something between them stays outside.
    """
    if not is_convex(graph, {*core.nodes, *before, *after}):
        raise ProgramError("a value leaves the kernel and comes back into it")
    specs, taken = layouts(graph), set(LOCALS)
    result = Ref(node=after[-1]) if after else core.result
    walked, read = set(core.walked), TensorSpec.contiguous(core.shape)
    prologue, reads = pointwise_region(graph, set(before), core.source, walked, read, taken, "element")
    titles = {core.result.node: core.value}
    epilogue, extra = pointwise_region(
        graph, set(after), result, walked, specs[result.node, 0], taken, titles=titles
    )
    return Neighbours(
        nodes=frozenset([*before, *after]),
        prologue=prologue,
        epilogue=epilogue,
        reads=(*reads, *(ref for ref in extra if ref != core.result)),
        operand=epilogue.inputs[extra.index(core.result)].name,
        result=result,
    )


def placed(program: Program, graph: Graph, core: Core, beside: Neighbours, name: str) -> Program:
    """The program with one kernel in place of a core and its neighbours, perhaps under a name of the caller's.

    Args:
        program: whose kernels there are so far.
        graph: its graph, in which the source may have been cut to what is read.
        core: the operator.
        beside: the neighbours.
        name: of the kernel; "" for the core's title.
    """
    names = {*core.nodes, *beside.nodes}
    name = name or identifier(core.title, taken_names(program, names))
    words = f"{core.computes}, with {summary(graph, set(beside.nodes))}" if beside.nodes else core.computes
    kernel = Kernel(
        name=name,
        body=Template(
            name=core.template,
            parameters={**core.parameters, "value": beside.operand},
            prologue=beside.prologue,
            epilogue=beside.epilogue,
        ),
        outputs=(layouts(graph)[beside.result.node, 0],),
        computes=words,
        skills=(core.skill,),
    )
    changed = replaced(graph, names, name, list(beside.reads), [beside.result])
    return program.model_copy(update={"graph": changed, "kernels": (*program.kernels, kernel)})


def widest(
    core: str, choices: Iterable[tuple[list[str], list[str]]], fuse: Callable[[list[str], list[str]], Program]
) -> Program:
    """The program with the first choice of neighbours, before and after a core, that makes a kernel.

    Raises:
        ProgramError: none does; why not the last one.
    """
    error = ProgramError(f"{core} does not make a kernel")
    for before, after in choices:
        try:
            return fuse(before, after)
        except ProgramError as found:
            error = found
    raise error
