"""Masks that the graph makes from row and column numbers: how much of a tensor they keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kernelskill.records import Arg, Node, Ref
from kernelskill.records.operators import family, function

_COMPARES = frozenset({"eq", "ge", "gt", "le", "lt"})
_SHAPES = frozenset({"view", "expand", "alias", "clone", "_to_copy"})


class _Index(NamedTuple):
    """A whole number `start + row * i + column * j` for each place (i, j) of a matrix."""

    start: int
    row: int = 0
    column: int = 0


def kept_share(node: Node, nodes: Mapping[str, Node]) -> float | None:
    """Share of the elements that `where(mask, x, 0)` takes from x, or from the other side where x is a number.

    0 where the mask is fixed but of a kind that is not counted here; None where the node is no such choice, or its
    mask depends on data.
    """
    out = node.outputs[0] if node.outputs else None
    if (
        function(node.op) != "where"
        or len(node.args) != 3
        or out is None
        or not is_fixed(node.args[0], nodes)
    ):
        return None
    left, right = (not is_fixed(side, nodes) for side in node.args[1:])
    if left and right:
        return 1.0
    share = _true_share(node.args[0], out.shape, nodes)
    return 0.0 if share is None else share if left else 1.0 - share


def is_fixed(value: Arg, nodes: Mapping[str, Node]) -> bool:
    """Whether a value depends on neither inputs nor state."""
    waiting, seen = [value], set()
    while waiting:
        item = waiting.pop()
        if not isinstance(item, Ref) or item.node in seen:
            continue
        seen.add(item.node)
        node = nodes.get(item.node)
        if node is None or family(node.op) == "random":
            return False
        waiting.extend(node.refs())
    return True


def _true_share(mask: Arg, shape: tuple[int, ...], nodes: Mapping[str, Node]) -> float | None:
    """Share of true elements of a comparison of row and column numbers."""
    node = nodes.get(mask.node) if isinstance(mask, Ref) else None
    while node is not None and function(node.op) in _SHAPES and isinstance(node.args[0], Ref):
        node = nodes.get(node.args[0].node)
    if node is None or function(node.op) not in _COMPARES or len(shape) < 2 or len(node.args) < 2:
        return None
    left, right = (_index(arg, nodes) for arg in node.args[:2])
    if left is None or right is None:
        return None
    rows, columns = shape[-2:]
    start, row, column = (a - b for a, b in zip(left, right, strict=True))
    compare = function(node.op)
    total = sum(_count(start + row * i, column, columns, compare) for i in range(rows))
    return total / max(rows * columns, 1)


def _count(start: int, step: int, size: int, compare: str) -> int:
    """How many of `start + step * j`, j < size, compare with 0 as asked."""
    if compare in {"le", "lt"}:
        return _count(-start, -step, size, "ge" if compare == "le" else "gt")
    if compare == "eq":
        return _count(start, step, size, "ge") - _count(start, step, size, "gt")
    least = 0 if compare == "ge" else 1  # start + step * j >= least
    if step == 0:
        return size if start >= least else 0
    if step > 0:
        return max(0, size - max(0, -(-(least - start) // step)))
    return max(0, min(size, (start - least) // -step + 1))


def _index(value: Arg, nodes: Mapping[str, Node]) -> _Index | None:
    """A value as row and column numbers; None where it is something else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _Index(value)
    node = nodes.get(value.node) if isinstance(value, Ref) else None
    if node is None or not node.args:
        return None
    name, out = function(node.op), node.outputs[0]
    if name == "arange":
        numbers = [arg for arg in node.args if isinstance(arg, int)]
        first, step = (numbers[0] if len(numbers) > 1 else 0), (numbers[2] if len(numbers) > 2 else 1)
        return _Index(first, column=step) if len(numbers) == len(node.args) else None
    inner = _index(node.args[0], nodes)
    if inner is None or out is None:
        return None
    if name == "unsqueeze" or name in _SHAPES:
        return _seen_as(inner, out.shape, nodes, node)
    if name in {"add", "sub"} and len(node.args) == 2:
        other = _index(node.args[1], nodes)
        sign = 1 if name == "add" else -1
        return _Index(*(a + sign * b for a, b in zip(inner, other, strict=True))) if other else None
    return None


def _seen_as(inner: _Index, shape: tuple[int, ...], nodes: Mapping[str, Node], node: Node) -> _Index | None:
    """The same numbers under another shape: a line may become a column or a row."""
    source = nodes[node.args[0].node].outputs[0] if isinstance(node.args[0], Ref) else None
    if source is None or (inner.row and inner.column):
        return inner if source is not None and source.shape[-2:] == shape[-2:] else None
    step = inner.row or inner.column
    if len(shape) >= 2 and shape[-1] == 1 and shape[-2] == source.numel:
        return _Index(inner.start, row=step)
    if shape and shape[-1] == source.numel:
        return _Index(inner.start, column=step)
    expanded = function(node.op) == "expand" and len(shape) == len(source.shape)
    return inner if expanded or source.shape == shape else None
