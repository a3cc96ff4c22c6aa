"""Where a graph pools: the core with the point-wise neighbours that one kernel takes along."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.region import Region
from kernelskill.program.rewrite.editor import Editor, argument
from kernelskill.program.scalar import TRANSCENDENTAL
from kernelskill.program.templates.core import Core, neighbours, placed, widest
from kernelskill.program.templates.pointwise import consumers, layouts, producers
from kernelskill.records import Arg, Graph, Node, Ref

SKILL = "direct-pooling"
_MAXIMA = {
    "aten.max_pool1d.default": 1, "aten.max_pool2d.default": 2, "aten.max_pool3d.default": 3,
    "aten.max_pool2d_with_indices.default": 2, "aten.max_pool3d_with_indices.default": 3,
}  # fmt: skip
_MEANS = {"aten.avg_pool1d.default": 1, "aten.avg_pool2d.default": 2, "aten.avg_pool3d.default": 3}
LARGEST_WINDOW = 64
"""Widest window along the width whose taps are written out."""


@dataclass(frozen=True)
class PoolSite:
    """A pooling whose indices nobody uses."""

    core: str
    source: Ref
    fold: str
    rank: int
    kernel: tuple[int, ...]
    """Depth, height, width, as the three below; dimensions that are not pooled have windows of one."""
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    count_padding: bool = True
    divisor: int = 0


def pool_sites(program: Program) -> list[PoolSite]:
    """All poolings of a program that one kernel can do, in order of the graph."""
    editor = Editor(program.graph)
    found = [_site(editor, node) for node in program.graph.nodes if node.op in _MAXIMA or node.op in _MEANS]
    return [site for site in found if site is not None]


def _site(editor: Editor, node: Node) -> PoolSite | None:
    spec, source = node.outputs[0], node.args[0]
    read = editor.spec(source)
    if spec is None or read is None or not isinstance(source, Ref) or spec.numel == 0 or read.numel == 0:
        return None
    contiguous_rows = read.stride[-1] == 1 or read.shape[-1] == 1
    if {spec.dtype, read.dtype} != {"float32"} or not contiguous_rows or not spec.is_contiguous:
        return None
    if _uses_second(editor, node.name):
        return None
    rank = _MAXIMA.get(node.op) or _MEANS[node.op]
    kernel = _numbers(argument(node, 1, "kernel_size"), rank, 1)
    stride = _numbers(argument(node, 2, "stride"), rank, 0)
    if kernel[-1] > LARGEST_WINDOW:
        return None
    site = PoolSite(
        core=node.name, source=source, fold="max" if node.op in _MAXIMA else "mean", rank=rank, kernel=kernel,
        stride=tuple(step or size for step, size in zip(stride, kernel, strict=True)),
        padding=_numbers(argument(node, 3, "padding"), rank, 0),
        dilation=_numbers(argument(node, 4, "dilation"), rank, 1) if node.op in _MAXIMA else (1, 1, 1),
        count_padding=argument(node, 5, "count_include_pad", True) is not False,
        divisor=_whole(argument(node, 6, "divisor_override")),
    )  # fmt: skip
    return site


def _uses_second(editor: Editor, name: str) -> bool:
    refs = [ref for node in editor.nodes.values() for ref in node.refs()] + editor.results()
    return any(ref.node == name and ref.output != 0 for ref in refs)


def _whole(value: Arg) -> int:
    return value if isinstance(value, int) else 0


def _numbers(value: Arg, rank: int, default: int) -> tuple[int, ...]:
    """One number or one per pooled dimension, as depth, height and width."""
    given = (
        [_whole(item) for item in value]
        if isinstance(value, tuple)
        else [_whole(value)] * (value is not None)
    )
    given = given * rank if len(given) == 1 else given or [default] * rank
    outside = 0 if default == 0 else 1
    return tuple([outside] * (3 - rank) + given)


def fuse_pool(program: Program, site: PoolSite, name: str = "") -> Program:
    """The program with a pooling and its point-wise neighbours as one kernel, perhaps under a name of the caller's.

    Raises:
        ProgramError: it does not make one kernel.
    """
    graph = program.graph
    before, after = producers(graph, site.source), consumers(graph, Ref(node=site.core))
    choices = [
        (before[:first], after[:last])
        for first in range(len(before), -1, -1)
        for last in range(len(after), -1, -1)
    ]
    return widest(site.core, choices, lambda front, back: _fused(program, site, front, back, name))


def _fused(program: Program, site: PoolSite, before: list[str], after: list[str], name: str) -> Program:
    graph = program.graph
    core = _core(graph, site)
    beside = neighbours(graph, core, before, after)
    if before and _repeats(site) and _is_costly(beside.prologue):
        raise ProgramError("overlapping windows would compute costly functions several times")
    if any(operand.strides[-1] not in (0, 1) for operand in beside.prologue.inputs):
        raise ProgramError("rows of what is pooled are not contiguous")
    missing = 3 - site.rank
    beside = replace(
        beside, prologue=_padded(beside.prologue, missing), epilogue=_padded(beside.epilogue, missing)
    )
    return placed(program, graph, core, beside, name)


def _core(graph: Graph, site: PoolSite) -> Core:
    shape = layouts(graph)[site.source.node, site.source.output].shape
    return Core(
        template="pool", nodes=(site.core,), source=site.source, shape=shape, result=Ref(node=site.core),
        walked=frozenset(range(len(shape) - site.rank, len(shape))), value="pooled", title=f"{site.fold}_pool",
        computes=_said(site), skill=SKILL,
        parameters={
            "fold": site.fold, "kernel": list(site.kernel), "stride": _filled(site.stride),
            "padding": list(site.padding), "dilation": list(site.dilation), "divisor": site.divisor,
            "count_padding": site.count_padding,
        },
    )  # fmt: skip


def _filled(numbers: tuple[int, ...]) -> list[int]:
    return [number or 1 for number in numbers]


def _padded(region: Region, missing: int) -> Region:
    """The region with walked axes of one step for the dimensions that are not pooled."""
    place = next(index for index, axis in enumerate(region.axes) if axis.role == "reduce")
    axis = region.axes[place].model_copy(update={"size": 1})

    def longer(strides: tuple[int, ...]) -> tuple[int, ...]:
        return (*strides[:place], *(0,) * missing, *strides[place:])

    return region.model_copy(
        update={
            "axes": (*region.axes[:place], *(axis,) * missing, *region.axes[place:]),
            "inputs": tuple(
                item.model_copy(update={"strides": longer(item.strides)}) for item in region.inputs
            ),
            "outputs": tuple(
                item.model_copy(update={"strides": longer(item.strides)}) for item in region.outputs
            ),
        }
    )


def _repeats(site: PoolSite) -> bool:
    """Whether an element is in more than one window row."""
    sizes = zip(site.kernel[:2], site.stride[:2], strict=True)
    return any(size > (stride or 1) for size, stride in sizes)


def _is_costly(region: Region) -> bool:
    return any(
        op.fn in TRANSCENDENTAL or op.fn in {"div", "sqrt"} for stage in region.stages for op in stage.ops
    )


def _said(site: PoolSite) -> str:
    """What the pooling computes, in words."""
    first = 3 - site.rank
    window = " x ".join(map(str, site.kernel[first:]))
    words = f"{'maximum' if site.fold == 'max' else 'average'} over windows of {window}"
    for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1)):
        numbers = getattr(site, name)[first:]
        if set(numbers) != {usual}:
            each = str(numbers[0]) if len(set(numbers)) == 1 else " x ".join(map(str, numbers))
            words += f", {name} {each}"
    return words
