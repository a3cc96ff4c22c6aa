"""Views as index maps: where the first element of a view lies, and how dimensions move.

A view of a tensor from outside a kernel costs nothing: the kernel reads the tensor itself with the view's strides. A
view of a value computed inside only renames dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.uses import uses
from kernelskill.program.values import Builder, Dims, SplitAxis, Value
from kernelskill.records import Arg, Graph, Node, Ref, TensorSpec

RESHAPES = frozenset(
    ["aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.unsqueeze.default",
     "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default"]
)  # fmt: skip
"""Views that add or drop dimensions of size 1, or join and part dimensions."""
ORDERS = frozenset(["aten.permute.default", "aten.transpose.int", "aten.t.default"])
PARTS = frozenset(
    [
        "aten.slice.Tensor",
        "aten.select.int",
        "aten.split_with_sizes.default",
        "aten.split.Tensor",
        "aten.unbind.int",
    ]
)
"""Views of a part of a tensor; only of tensors from outside the kernel."""
EXPANDS = frozenset(["aten.expand.default"])
VIEWS = RESHAPES | ORDERS | PARTS | EXPANDS


@dataclass(frozen=True)
class View:
    """A tensor from outside the kernel, seen through views."""

    root: Ref
    spec: TensorSpec
    offset: int


def aliases(graph: Graph, names: set[str]) -> set[str]:
    """Nodes of the set that are views of tensors from outside it."""
    found: set[str] = set()
    for node in uses(graph).sorted(names):
        if node.op in VIEWS:
            source = node.args[0]
            if isinstance(source, Ref) and (source.node not in names or source.node in found):
                found.add(node.name)
    return found


def seen_through(node: Node, source: View) -> list[View]:
    """What each result of a view node is, given what it looks at."""
    steps = source.spec.stride
    results: list[View] = []
    for output, spec in enumerate(node.outputs):
        if spec is None:
            raise ProgramError(f"view {node.name} gives no tensor")
        results.append(View(source.root, spec, source.offset + _offset(node, output, source.spec, steps)))
    return results


def _offset(node: Node, output: int, spec: TensorSpec, steps: tuple[int, ...]) -> int:
    if node.op not in PARTS:
        return 0
    if node.op == "aten.slice.Tensor":
        dim, start = _int(_argument(node, 1, "dim"), 0), _int(_argument(node, 2, "start"), 0)
        size = spec.shape[dim]
        return min(max(start + size if start < 0 else start, 0), size) * steps[dim]
    if node.op == "aten.select.int":
        dim, index = _int(node.args[1], 0), _int(node.args[2], 0)
        return (index % spec.shape[dim]) * steps[dim]
    if node.op == "aten.unbind.int":
        return output * steps[_int(_argument(node, 1, "dim"), 0)]
    dim = _int(_argument(node, 2, "dim"), 0)
    sizes = node.args[1]
    if isinstance(sizes, tuple):
        return sum(_int(size, 0) for size in sizes[:output]) * steps[dim]
    return output * _int(sizes, 0) * steps[dim]


def _argument(node: Node, position: int, name: str) -> Arg:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name)


def _int(value: Arg, default: int) -> int:
    return value if isinstance(value, int) else default


def within(node: Node, builder: Builder, value: Value) -> Value:
    """A view of a value of the kernel: the same value with its dimensions renamed.

    Raises:
        SplitAxis: it parts an axis of the space, which must be split first.
        ProgramError: it is no such view.
    """
    spec = node.outputs[0]
    if node.op in PARTS or spec is None:
        raise ProgramError(f"{node.name} takes a part of a value of the kernel")
    if node.op in ORDERS:
        dims = tuple(value.dims[place] for place in _order(node, len(value.dims)))
    elif node.op in EXPANDS:
        dims = ((),) * (len(spec.shape) - len(value.dims)) + value.dims
    else:
        dims = _regrouped(node, builder, value, spec)
    result = builder.emit("copy", value)
    result.dims = dims
    return result


def _order(node: Node, rank: int) -> list[int]:
    if node.op == "aten.permute.default":
        order = node.args[1]
        assert isinstance(order, tuple)
        return [_int(place, 0) % rank for place in order]
    order_ = list(range(rank))
    first, second = (0, 1) if node.op == "aten.t.default" else (_int(node.args[1], 0), _int(node.args[2], 0))
    if rank > 1:
        order_[first], order_[second] = order_[second], order_[first]
    return order_


def _regrouped(node: Node, builder: Builder, value: Value, spec: TensorSpec) -> Dims:
    source = node.args[0]
    shape = builder.shape(value)
    if isinstance(source, Ref) and builder.specs[source.node, source.output].shape != shape:
        raise ProgramError(f"{node.name} looks at a value that is repeated along a dimension")
    axes = [axis for dims in value.dims for axis in dims]
    sizes = builder.space.sizes
    dims: list[tuple[int, ...]] = []
    for size in spec.shape:
        taken: list[int] = []
        extent = 1
        while extent < size and axes:
            axis = axes.pop(0)
            taken.append(axis)
            if extent * sizes[axis] > size:
                if size % extent or sizes[axis] % (size // extent):
                    raise ProgramError(f"view {node.name} cuts through an axis")
                outer = size // extent
                raise SplitAxis(axis, (outer, sizes[axis] // outer))
            extent *= sizes[axis]
        if extent != size:
            raise ProgramError(f"view {node.name} cuts through an axis")
        dims.append(tuple(taken))
    if axes and builder.space.extent(tuple(axes)) != 1:
        raise ProgramError(f"view {node.name} loses axes")
    return tuple(dims)
