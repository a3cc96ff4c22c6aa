"""Nodes that return what they are given: exact for every finite input (a zero may change its sign)."""

from __future__ import annotations

from kernelskill.program.rewrite.editor import Editor, argument, function
from kernelskill.program.rewrite.ranges import bounds, clamp_limits
from kernelskill.records.graph import Arg, Node, Ref

_COPIES = frozenset({"clone", "_to_copy", "alias", "detach", "lift_fresh_copy", "contiguous", "dropout"})
_SHAPE = frozenset({"view", "reshape", "_unsafe_view", "expand", "squeeze", "unsqueeze", "slice", "cat", "repeat",
                    "constant_pad_nd", "permute", "transpose"})  # fmt: skip
_FOLDS = frozenset(
    {"amax", "amin", "mean", "sum", "prod", "logsumexp", "max", "min", "cumsum", "cumprod", "flip"}
)
_NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0, "pow": 1.0}


def copy(editor: Editor, node: Node) -> Ref | None:
    """Clone, dropout that is off, conversion to the type it has: the value itself."""
    first = _first(node)
    if function(node) not in _COPIES or first is None:
        return None
    if (
        function(node) == "dropout"
        and argument(node, 1, "p") != 0
        and argument(node, 2, "train") is not False
    ):
        return None
    return first


def neutral(editor: Editor, node: Node) -> Ref | None:
    """Neutral elements: x + 0, x - 0, x * 1, x / 1, x ** 1; a number on either side of + and *."""
    name, first = function(node), _first(node)
    if name not in _NEUTRAL or len(node.args) < 2 or "rounding_mode" in node.kwargs:
        return None
    if editor.number(node.args[1]) == _NEUTRAL[name] and first is not None:
        return first
    second = node.args[1]
    if name in {"add", "mul"} and isinstance(second, Ref) and editor.number(node.args[0]) == _NEUTRAL[name]:
        return second if node.kwargs.get("alpha", 1) == 1 else None
    return None


def same_shape(editor: Editor, node: Node) -> Ref | None:
    """A view, expand, slice, permute, pad, repeat or cat that changes nothing."""
    name = function(node)
    if name == "cat" and isinstance(node.args[0], tuple):
        tensors = [item for item in node.args[0] if isinstance(item, Ref)]
        return tensors[0] if len(tensors) == 1 else None
    first = _first(node)
    if name not in _SHAPE or first is None:
        return None
    before, after = editor.spec(first), node.outputs[0]
    if before is None or after is None or before.shape != after.shape:
        return None
    if name in {"permute", "transpose"} and not _keeps_order(node, before.shape):
        return None
    if name == "constant_pad_nd":
        pads = argument(node, 1, "pad")
        return first if isinstance(pads, tuple) and all(pad == 0 for pad in pads) else None
    return first


def _keeps_order(node: Node, shape: tuple[int, ...]) -> bool:
    rank = len(shape)
    if function(node) == "transpose":
        moved = [a % max(rank, 1) for a in node.args[1:3] if isinstance(a, int)]
        return len(moved) == 2 and moved[0] == moved[1]
    order = argument(node, 1, "dims")
    if not isinstance(order, tuple):
        return False
    # Axes of size 1 may change places freely: the elements stay in order.
    kept = [a % rank for a in order if isinstance(a, int) and shape[a % rank] != 1]
    return kept == sorted(kept)


def inverse_pair(editor: Editor, node: Node) -> Ref | None:
    """permute(permute(x)) and squeeze(unsqueeze(x)) back to x, flip(flip(x)), -(-x)."""
    inner = editor.producer(_first(node))
    name = function(node)
    if inner is None:
        return None
    origin = _first(inner)
    if origin is None or editor.spec(origin) is None:
        return None
    pair = (function(inner), name)
    if pair == ("neg", "neg") or (pair == ("flip", "flip") and _axes(editor, inner) == _axes(editor, node)):
        return origin
    if pair == ("permute", "permute"):
        one, two = inner.args[1], node.args[1]
        if isinstance(one, tuple) and isinstance(two, tuple):
            rank = len(one)
            total = [_index(one[_index(axis, rank)], rank) for axis in two]
            return origin if total == list(range(rank)) else None
    if pair in {("unsqueeze", "squeeze"), ("view", "view"), ("squeeze", "unsqueeze"), ("view", "squeeze")}:
        # Views of each other keep the order of the elements; equal layouts (checked by the caller) do the rest.
        return origin
    return None


def _index(value: Arg, rank: int) -> int:
    return value % rank if isinstance(value, int) else 0


def _axes(editor: Editor, node: Node) -> set[int]:
    spec = node.outputs[0]
    rank = len(spec.shape) if spec else 1
    axes = argument(node, 1, "dims")
    return {_index(axis, rank) for axis in axes} if isinstance(axes, tuple) else set()


def size_one(editor: Editor, node: Node) -> Ref | None:
    """A maximum, mean, sum, product, logsumexp, scan or flip over axes of size 1 that keeps them."""
    first, name = _first(node), function(node)
    before, after = editor.spec(first), node.outputs[0]
    if name not in _FOLDS or first is None or before is None or after is None or before.shape != after.shape:
        return None
    if node.op in {"aten.max.other", "aten.min.other"}:
        return None
    dims = argument(node, 1, "dim")
    rank = len(before.shape)
    axes = dims if isinstance(dims, tuple) else (dims,) if isinstance(dims, int) else None
    if axes is None or axes == ():
        axes = tuple(range(rank))
    return first if all(before.shape[_index(axis, rank)] == 1 for axis in axes if rank) else None


def logsumexp_of_one(editor: Editor, node: Node) -> Ref | None:
    """log(exp(x - m)) + m with m = where(abs(x) == inf, 0, x): a logsumexp over one element, spelled out."""
    log = editor.producer(_first(node))
    if function(node) != "add" or log is None or function(log) != "log" or node.kwargs.get("alpha", 1) != 1:
        return None
    exp = editor.producer(_first(log))
    shifted = editor.producer(_first(exp)) if exp is not None and function(exp) == "exp" else None
    if shifted is None or function(shifted) != "sub" or shifted.kwargs.get("alpha", 1) != 1:
        return None
    x, shift = shifted.args[0], shifted.args[1]
    chosen = editor.producer(shift)
    if node.args[1] != shift or chosen is None or function(chosen) != "where" or not isinstance(x, Ref):
        return None
    test = editor.producer(chosen.args[0])
    if chosen.args[2] != x or editor.number(chosen.args[1]) != 0 or test is None or function(test) != "eq":
        return None
    size = editor.producer(test.args[0])
    is_infinite = size is not None and function(size) == "abs" and size.args[0] == x
    return x if is_infinite and editor.number(test.args[1]) == float("inf") else None


def within_bounds(editor: Editor, node: Node) -> Ref | None:
    """A clamp, relu, abs or leaky relu of values that are inside its bounds anyway."""
    first, name = _first(node), function(node)
    if first is None:
        return None
    if name in {"abs", "leaky_relu"}:
        return first if bounds(editor, first)[0] >= 0 else None
    limits = clamp_limits(editor, node)
    if limits is None:
        return None
    low, high = bounds(editor, first)
    fits = (limits[0] is None or low >= limits[0]) and (limits[1] is None or high <= limits[1])
    return first if fits else None


def _first(node: Node | None) -> Ref | None:
    value = node.args[0] if node is not None and node.args else None
    return value if isinstance(value, Ref) else None
