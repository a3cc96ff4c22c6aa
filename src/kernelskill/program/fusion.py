"""Nodes of a graph -> one kernel; and where that is possible.

`fuse` builds a kernel from a set of nodes or says why it cannot. `sites` finds maximal sets: it starts at one node and
takes in neighbours as long as a kernel can be built of them.
"""

from __future__ import annotations

from typing import Literal

from kernelskill.errors import ProgramError
from kernelskill.program.assemble import Assembly, identifier
from kernelskill.program.expand import HEADS, NLL, SOFTMAX, space_for
from kernelskill.program.lowering import CREATE, is_pointwise
from kernelskill.program.naming import kernel_name, operand_names, result_names, summary
from kernelskill.program.placing import Views, place
from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Region
from kernelskill.program.uses import uses
from kernelskill.program.values import Builder, Space, SplitAxis
from kernelskill.program.views import VIEWS, aliases
from kernelskill.records import Arg, Graph, Node, Ref, TensorSpec

__all__ = ["Kind", "Site", "build", "fuse", "is_convex", "place", "replaced", "sites"]

Site = tuple[str, ...]
"""Names of nodes, in order of the graph."""
Kind = Literal["elementwise", "reduction", "rows", "softmax"]

MOST_SPLITS = 8


def fusable(node: Node) -> bool:
    """Whether a node can be part of a kernel at all."""
    return is_pointwise(node) or node.op in HEADS or node.op in VIEWS or node.op in CREATE or node.op in NLL


def build(graph: Graph, names: set[str]) -> tuple[Region, list[Ref], list[Ref]]:
    """The region of a set of nodes.

    Returns:
        The region, the values it reads (in order of its inputs), the values it gives (in order of its outputs).

    Raises:
        ProgramError: the nodes do not make one kernel; the message says why.
    """
    known = uses(graph)
    nodes = known.sorted(names)
    outside = aliases(graph, names)
    if len(outside) == len(nodes):
        raise ProgramError("views alone need no kernel")
    head = next((node for node in nodes if node.op in HEADS), None)
    specs = known.specs
    wanted = [ref for ref in known.results(names) if ref.node not in outside]
    if head is not None:
        first = head.args[0]
        assert isinstance(first, Ref)
        space = space_for(head, specs[first.node, first.output])
    else:
        shape = max((specs[ref.node, ref.output].shape for ref in wanted), key=len, default=())
        space = Space.of(shape, set())
    if 0 in space.sizes:
        raise ProgramError("an empty tensor needs no kernel")
    builder = _placed(nodes, names, space, specs)
    space = builder.space
    outputs = []
    for ref, title in zip(wanted, result_names(graph, wanted), strict=True):
        value = builder.values.get((ref.node, ref.output))
        if value is None:
            raise ProgramError(f"result {ref.output} of {ref.node} is used but not computed")
        if head is None and builder.shape(value) != space_shape(space):
            raise ProgramError("results of different shapes do not share an element-wise kernel")
        outputs.append((value, specs[ref.node, ref.output], title))
    assembly = Assembly(builder, outputs, operand_names(graph))
    region = assembly.region()
    return region, [value.operand for value in assembly.input_refs() if value.operand], wanted


def _placed(
    nodes: list[Node], names: set[str], space: Space, specs: dict[tuple[str, int], TensorSpec]
) -> Builder:
    """All nodes in the space, whose axes are split as views ask for it."""
    for _ in range(MOST_SPLITS):
        builder, views = Builder(space, specs), Views()
        try:
            for node in nodes:
                place(node, builder, names, views)
        except SplitAxis as needed:
            space = space.split(needed.axis, needed.sizes)
        else:
            return builder
    raise ProgramError("views part the axes too often")


def space_shape(space: Space) -> tuple[int, ...]:
    """Sizes of the logical shape."""
    return tuple(space.extent(axes) for axes in space.dims)


# -- fusing ------------------------------------------------------------------------------------------


def fuse(program: Program, nodes: Site | set[str], *, name: str = "", skill: str = "") -> Program:
    """The program with these nodes as one kernel.

    Raises:
        ProgramError: they do not make one kernel, or something between them stays outside.
    """
    names = set(nodes)
    if not is_convex(program.graph, names):
        raise ProgramError("a value leaves the kernel and comes back into it")
    region, reads, gives = build(program.graph, names)
    names -= kept_views(program.graph, names)
    title = identifier(name or kernel_name(program.graph, names), taken_names(program, names))
    specs = uses(program.graph).specs
    kernel = Kernel(
        name=title,
        body=region,
        outputs=tuple(specs[ref.node, ref.output] for ref in gives),
        computes=summary(program.graph, names),
        skills=(skill,) if skill else (),
    )
    graph = replaced(program.graph, names, title, reads, gives)
    return program.model_copy(update={"graph": graph, "kernels": (*program.kernels, kernel)})


def taken_names(program: Program, names: set[str]) -> set[str]:
    """Names that a kernel in place of some nodes may not have."""
    graph = program.graph
    taken = {kernel.name for kernel in program.kernels}
    taken |= {node.name for node in graph.nodes if node.name not in names}
    taken |= {value.name for value in graph.inputs}
    return taken | {value.name for value in graph.state}


def replaced(graph: Graph, names: set[str], kernel: str, reads: list[Ref], gives: list[Ref]) -> Graph:
    """The graph with a kernel call in place of some nodes."""
    known = uses(graph)
    specs, inside = known.specs, known.sorted(names)
    call = Node(
        name=f"{kernel}_out",
        op=f"kernel:{kernel}",
        args=tuple(reads),
        outputs=tuple(specs[ref.node, ref.output] for ref in gives),
        origin=next((node.origin for node in inside if node.origin), ""),
    )
    new = {(ref.node, ref.output): Ref(node=call.name, output=index) for index, ref in enumerate(gives)}

    def moved(arg: Arg) -> Arg:
        if isinstance(arg, Ref):
            return new.get((arg.node, arg.output), arg)
        return tuple(moved(item) for item in arg) if isinstance(arg, tuple) else arg

    nodes = [node for node in graph.nodes if node.name not in names]
    read = {ref.node for ref in reads}
    place_at = 1 + max((index for index, node in enumerate(nodes) if node.name in read), default=-1)
    renamed = [
        node
        if names.isdisjoint(known.feeds[node.name])
        else node.model_copy(
            update={
                "args": tuple(moved(arg) for arg in node.args),
                "kwargs": {key: moved(arg) for key, arg in node.kwargs.items()},
            }
        )
        for node in nodes
    ]
    return graph.model_copy(
        update={
            "nodes": (*renamed[:place_at], call, *renamed[place_at:]),
            "outputs": tuple(moved(arg) for arg in graph.outputs),
            "updates": {path: new.get((ref.node, ref.output), ref) for path, ref in graph.updates.items()},
        }
    )


def kept_views(graph: Graph, names: set[str]) -> set[str]:
    """Views of outside tensors that others use as well, and those that they are views of: the kernel has its own."""
    views = aliases(graph, names)
    known = uses(graph)
    kept = {ref.node for ref in known.results(names)} & views
    for node in reversed(known.sorted(views)):
        if node.name in kept:
            kept |= known.feeds[node.name] & views
    return kept


def is_convex(graph: Graph, names: set[str]) -> bool:
    """Whether no path leaves the set and comes back."""
    return not uses(graph).comes_back(names - aliases(graph, names))


# -- finding sites -----------------------------------------------------------------------------------


def sites(program: Program, kind: Kind) -> list[Site]:
    """Maximal sets of nodes that make one kernel, largest first in order of the graph."""
    graph = program.graph
    found: list[Site] = []
    used: set[str] = set()
    for node in graph.nodes:
        if node.name in used or not _starts(node, kind):
            continue
        site = _grown(graph, node, used, rows=kind != "elementwise")
        if site and _worthwhile(graph, site, kind):
            found.append(tuple(item.name for item in uses(graph).sorted(site)))
            used |= site
    return found


def _starts(node: Node, kind: Kind) -> bool:
    if kind == "elementwise":
        return is_pointwise(node)
    if kind == "softmax":
        return node.op in SOFTMAX
    return node.op in HEADS and node.op not in SOFTMAX


def _worthwhile(graph: Graph, site: set[str], kind: Kind) -> bool:
    """Rows write their row again; reductions end in one value a row."""
    if kind in {"elementwise", "softmax"}:
        return True
    region, _, _ = build(graph, site)
    writes_rows = any(stage.kind == "map" for stage in region.stages)
    return writes_rows == (kind == "rows")


def _grown(graph: Graph, start: Node, used: set[str], rows: bool) -> set[str] | None:
    def fits(names: set[str]) -> bool:
        try:
            build(graph, names)
        except ProgramError:
            return False
        return is_convex(graph, names)

    site = {start.name}
    if not fits(site):
        return None
    growing = True
    while growing:
        growing = False
        for node in _neighbours(graph, site):
            if node.name in used | site or not fusable(node) or (not rows and node.op in HEADS):
                continue
            for more in _additions(graph, node):
                if not more & used and fits(site | more):
                    site |= more
                    growing = True
                    break
    return site


def _additions(graph: Graph, node: Node) -> list[set[str]]:
    """A node; and for a view, which may be worth nothing alone, the node with one that uses it."""
    additions = [{node.name}]
    if node.op in VIEWS:
        known = uses(graph)
        takers = known.takers(node.name)
        additions += [{node.name, name} for name in takers if fusable(known.nodes[name])]
    return additions


def _neighbours(graph: Graph, site: set[str]) -> list[Node]:
    """Nodes that give to or take from the site: consumers first, then producers, nearest first."""
    known = uses(graph)
    takers = {user for name in site for user in known.takers(name)} - site
    givers = {name for taker in site for name in known.feeds[taker]} - site
    return [*known.sorted(takers), *reversed(known.sorted(givers))]
