"""Where a graph scans: the core with the flips and shifted zeros around it that an index does for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.program.program import Program
from kernelskill.program.rewrite.dead import dead_nodes
from kernelskill.program.rewrite.editor import Editor, argument, function
from kernelskill.program.templates.core import Core, neighbours, placed, widest
from kernelskill.program.templates.pointwise import consumers, layouts, producers
from kernelskill.records import Graph, Node, Ref

FOLDS = {"aten.cumsum.default": "sum", "aten.cumprod.default": "prod"}
SKILL = "single-pass-scan"


@dataclass(frozen=True)
class ScanSite:
    """A scan and what it absorbs."""

    core: str
    """The cumsum or cumprod node."""
    nodes: tuple[str, ...]
    """The core and the absorbed flips, shifts and zeros, without point-wise neighbours."""
    source: Ref
    """What is scanned."""
    result: Ref
    fold: str
    axis: int
    reverse: bool
    exclusive: bool
    length: int
    """Elements read along the axis."""
    trim: tuple[tuple[int, int, int], ...] = ()
    """(dimension, begin, end) by which the source is cut, where a cut stood between the shift and the scan."""


def scan_sites(program: Program) -> list[ScanSite]:
    """All scans of a program that one kernel can do, in order of the graph."""
    editor = Editor(program.graph)
    found = [_site(editor, node) for node in program.graph.nodes if node.op in FOLDS]
    return [site for site in found if site is not None]


def _site(editor: Editor, node: Node) -> ScanSite | None:
    spec, source = node.outputs[0], node.args[0]
    read = editor.spec(source)
    if spec is None or read is None or not isinstance(source, Ref) or not spec.shape or spec.numel == 0:
        return None
    if spec.dtype != "float32" or read.dtype not in {"float32", "float16", "bfloat16"}:
        return None
    axis = argument(node, 1, "dim")
    if not isinstance(axis, int):
        return None
    axis %= len(spec.shape)
    site = ScanSite(
        core=node.name, nodes=(node.name,), source=source, result=Ref(node=node.name), fold=FOLDS[node.op],
        axis=axis, reverse=False, exclusive=False, length=spec.shape[axis],
    )  # fmt: skip
    return _flipped(editor, _zeros_first(editor, _zeros_cat_after(editor, site)))


def _with(site: ScanSite, **changes: object) -> ScanSite:
    return ScanSite(**{**site.__dict__, **changes})


def _only_user(editor: Editor, value: Ref) -> Node | None:
    if editor.uses(value.node) != 1:
        return None
    users = [node for node in editor.nodes.values() if value in node.refs()]
    return users[0] if users else None


def _flipped(editor: Editor, site: ScanSite) -> ScanSite:
    """flip(scan(flip(x))) over the scanned axis."""
    before, after = editor.producer(site.source), _only_user(editor, site.result)
    if (
        site.exclusive
        or before is None
        or after is None
        or function(before) != "flip"
        or function(after) != "flip"
    ):
        return site
    if editor.uses(before.name) != 1 or not (_flips(before, site.axis) and _flips(after, site.axis)):
        return site
    source = before.args[0]
    assert isinstance(source, Ref)
    nodes = (before.name, *site.nodes, after.name)
    return _with(site, nodes=nodes, source=source, result=Ref(node=after.name), reverse=True)


def _flips(node: Node, axis: int) -> bool:
    dims, spec = argument(node, 1, "dims"), node.outputs[0]
    return (
        isinstance(dims, tuple) and spec is not None and [_int(d) % len(spec.shape) for d in dims] == [axis]
    )


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _neutral_cat(editor: Editor, node: Node | None, site: ScanSite) -> Ref | None:
    """The second part of cat([neutral element, x]) along the scanned axis."""
    if (
        node is None
        or function(node) != "cat"
        or not isinstance(node.args[0], tuple)
        or len(node.args[0]) != 2
    ):
        return None
    head, tail = node.args[0]
    spec, rank = editor.spec(head), len(node.outputs[0].shape) if node.outputs[0] else 1
    if _int(argument(node, 1, "dim", 0)) % rank != site.axis or spec is None or not isinstance(tail, Ref):
        return None
    neutral = 0.0 if site.fold == "sum" else 1.0
    is_neutral = editor.number(head) == neutral and spec.shape[site.axis] == 1
    return tail if is_neutral else None


def _zeros_cat_after(editor: Editor, site: ScanSite) -> ScanSite:
    """cat([0, scan(x)]): result 0 is neutral."""
    after = _only_user(editor, site.result)
    if after is None or _neutral_cat(editor, after, site) != site.result:
        return site
    return _with(site, nodes=(*site.nodes, after.name), result=Ref(node=after.name), exclusive=True)


def _zeros_first(editor: Editor, site: ScanSite) -> ScanSite:
    """scan(cat([0, x])), perhaps with cuts between the two."""
    if site.exclusive:
        return site
    at, nodes, cuts = editor.producer(site.source), list(site.nodes), []
    while at is not None and at.op == "aten.slice.Tensor" and editor.uses(at.name) == 1:
        dim, begin, end = (_int(argument(at, k, "", 0)) for k in (1, 2, 3))
        before = editor.spec(at.args[0])
        if argument(at, 4, "step", 1) != 1 or before is None or len(at.args) < 4:
            return site
        dim, size = dim % len(before.shape), before.shape[dim % len(before.shape)]
        begin, end = (min(max(edge + size if edge < 0 else edge, 0), size) for edge in (begin, end))
        if dim == site.axis and begin != 0:
            return site
        cuts += [(dim, begin, end)] if dim != site.axis else []
        nodes.insert(0, at.name)
        at = editor.producer(at.args[0])
    tail = _neutral_cat(editor, at, site)
    if at is None or tail is None or editor.uses(at.name) != 1 or site.length < 2:
        return site
    source = editor.spec(tail)
    if source is not None and source.shape[site.axis] > site.length - 1:
        cuts.append((site.axis, 0, site.length - 1))
    return _with(
        site, nodes=(at.name, *nodes), source=tail, exclusive=True, length=site.length - 1, trim=tuple(cuts)
    )


def fuse_scan(program: Program, site: ScanSite, name: str = "") -> Program:
    """The program with a scan and its point-wise neighbours as one kernel, perhaps under a name of the caller's.

    Raises:
        ProgramError: it does not make one kernel.
    """
    graph, source = _trimmed(program.graph, site)
    before, after = producers(graph, source), consumers(graph, site.result)
    choices = [
        (front, after[:last])
        for front in ([before, []] if before else [[]])
        for last in range(len(after), -1, -1)
    ]
    core = _core(graph, site, source)
    return widest(site.core, choices, lambda front, back: _fused(program, graph, core, front, back, name))


def _trimmed(graph: Graph, site: ScanSite) -> tuple[Graph, Ref]:
    """The graph with the cuts made on the source itself, which costs nothing: a slice is a view."""
    source = site.source
    specs = layouts(graph)
    for number, (dim, begin, end) in enumerate(site.trim):
        spec = specs[source.node, source.output]
        shape = tuple(end - begin if k == dim else size for k, size in enumerate(spec.shape))
        cut = Node(
            name=f"{site.core}_cut{number or ''}", op="aten.slice.Tensor", args=(source, dim, begin, end),
            outputs=(spec.model_copy(update={"shape": shape}),),
        )  # fmt: skip
        nodes = list(graph.nodes)
        place = next(k for k, node in enumerate(nodes) if node.name in site.nodes)
        graph = graph.model_copy(update={"nodes": (*nodes[:place], cut, *nodes[place:])})
        source = Ref(node=cut.name)
        specs = layouts(graph)
    return graph, source


def _fused(
    program: Program, graph: Graph, core: Core, before: list[str], after: list[str], name: str
) -> Program:
    program = placed(program, graph, core, neighbours(graph, core, before, after), name)
    # Zeros in front of a shifted scan are used by nothing else as a rule.
    gone = set(dead_nodes(program.graph)) - set(dead_nodes(graph))
    nodes = tuple(node for node in program.graph.nodes if node.name not in gone)
    return program.model_copy(update={"graph": program.graph.model_copy(update={"nodes": nodes})})


def _core(graph: Graph, site: ScanSite, source: Ref) -> Core:
    whole = layouts(graph)[site.result.node, site.result.output].shape
    order = "exclusive " * site.exclusive + "reversed " * site.reverse
    return Core(
        template="scan", nodes=site.nodes, source=source,
        shape=tuple(site.length if dim == site.axis else size for dim, size in enumerate(whole)),
        result=Ref(node=site.result.node), walked=frozenset([site.axis]), value="scanned",
        title="reverse_" * site.reverse + "exclusive_" * site.exclusive + f"cum{site.fold}",
        computes=f"{order}cumulative {'sum' if site.fold == 'sum' else 'product'} along dimension {site.axis}",
        skill=SKILL,
        parameters={
            "fold": site.fold, "reverse": site.reverse, "exclusive": site.exclusive, "length": site.length,
        },
    )  # fmt: skip
