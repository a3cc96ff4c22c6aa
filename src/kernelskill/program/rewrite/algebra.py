"""Point-wise algebra on float32 and float64: fewer operations for the same function."""

from __future__ import annotations

import math

from kernelskill.program.rewrite.editor import Editor, function
from kernelskill.program.rewrite.ranges import bounds, clamp_limits
from kernelskill.records.graph import Arg, Node, Ref

_FLOATS = frozenset({"float32", "float64"})
_KEPT_DIGITS = 0.5
"""Constants are merged only when their sum keeps this share of the larger one: no hidden cancellation."""


def _floating(node: Node) -> bool:
    return node.outputs[0] is not None and node.outputs[0].dtype in _FLOATS


def _scaled(editor: Editor, value: Arg) -> tuple[Ref, float] | None:
    """(x, c) when a value is x * c, c * x or x / c with an exact reciprocal."""
    node = editor.producer(value)
    if node is None or len(node.args) < 2 or not _floating(node):
        return None
    left, right = node.args[0], node.args[1]
    if function(node) == "mul":
        for tensor, factor in ((left, right), (right, left)):
            number = editor.number(factor)
            if isinstance(tensor, Ref) and number is not None and editor.spec(tensor) == node.outputs[0]:
                return tensor, number
    if function(node) == "div" and isinstance(left, Ref) and "rounding_mode" not in node.kwargs:
        number = editor.number(right)
        if number is not None and is_power_of_two(number) and editor.spec(left) == node.outputs[0]:
            return left, 1.0 / number
    return None


def _shifted(editor: Editor, value: Arg) -> tuple[Ref, float] | None:
    """(x, c) when a value is x + c, c + x or x - c."""
    node = editor.producer(value)
    if node is None or len(node.args) < 2 or not _floating(node) or function(node) not in {"add", "sub"}:
        return None
    if node.kwargs.get("alpha", 1) != 1:
        return None
    sign = 1.0 if function(node) == "add" else -1.0
    number = editor.number(node.args[1])
    if isinstance(node.args[0], Ref) and number is not None and editor.spec(node.args[0]) == node.outputs[0]:
        return node.args[0], sign * number
    number = editor.number(node.args[0])
    if sign > 0 and isinstance(node.args[1], Ref) and number is not None:
        return (node.args[1], number) if editor.spec(node.args[1]) == node.outputs[0] else None
    return None


def is_power_of_two(number: float) -> bool:
    """Whether multiplying or dividing by it is exact (barring underflow)."""
    return number != 0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


def _call(node: Node, op: str, *args: Arg) -> Node:
    return node.model_copy(update={"op": op, "args": args, "kwargs": {}})


def powers(editor: Editor, node: Node) -> Node | None:
    """Powers: x ** 2 -> x * x, x ** 0.5 -> sqrt, x ** -1 -> reciprocal, x ** -0.5 -> rsqrt."""
    if node.op != "aten.pow.Tensor_Scalar" or not _floating(node) or not isinstance(node.args[0], Ref):
        return None
    x, exponent = node.args[0], editor.number(node.args[1])
    if editor.spec(x) != node.outputs[0]:
        return None
    if exponent == 2:
        return _call(node, "aten.mul.Tensor", x, x)
    named = {0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
    return _call(node, f"aten.{named[exponent]}.default", x) if exponent in named else None


def division(editor: Editor, node: Node) -> Node | None:
    """Division: x / 2^k -> x * 2^-k: exact."""
    if function(node) != "div" or not _floating(node) or "rounding_mode" in node.kwargs:
        return None
    number = editor.number(node.args[1])
    # A reciprocal beyond 2^100 could leave float32's range although the quotient doesn't.
    if number is None or not is_power_of_two(number) or number == 1 or not 2.0**-100 < abs(number) < 2.0**100:
        return None
    return (
        _call(node, "aten.mul.Tensor", node.args[0], 1.0 / number) if isinstance(node.args[0], Ref) else None
    )


def nested_clamps(editor: Editor, node: Node) -> Node | None:
    """clamp(clamp(x)) -> one clamp; relu, relu6 and hardtanh count as clamps."""
    outer = clamp_limits(editor, node) if _floating(node) else None
    inner_node = editor.producer(node.args[0]) if node.args else None
    if outer is None or inner_node is None or editor.uses(inner_node.name) != 1:
        return None
    inner = clamp_limits(editor, inner_node)
    if inner is None or inner_node.outputs[0] != node.outputs[0]:
        return None
    low, high = (-math.inf if outer[0] is None else outer[0]), (math.inf if outer[1] is None else outer[1])
    first = -math.inf if inner[0] is None else inner[0]
    last = math.inf if inner[1] is None else inner[1]
    if low > high or first > last:
        return None
    new = min(max(first, low), high), min(max(last, low), high)
    return _clamp(node, inner_node.args[0], *new)


def _clamp(node: Node, x: Arg, low: float, high: float) -> Node:
    if low == 0 and high == math.inf:
        return _call(node, "aten.relu.default", x)
    sides: list[Arg] = [None if math.isinf(side) else side for side in (low, high)]
    return _call(node, "aten.clamp.default", x, *sides)


def one_sided_clamp(editor: Editor, node: Node) -> Node | None:
    """Drop the side of a clamp that its argument never reaches."""
    limits = clamp_limits(editor, node) if _floating(node) else None
    if limits is None or limits[0] is None or limits[1] is None or limits[0] > limits[1]:
        return None
    low, high = bounds(editor, node.args[0])
    if low >= limits[0] and low > -math.inf:
        return _clamp(node, node.args[0], -math.inf, limits[1])
    if high <= limits[1] and high < math.inf:
        return _clamp(node, node.args[0], limits[0], math.inf)
    return None


def doubled(editor: Editor, node: Node) -> Node | None:
    """Sum: x + x -> 2x: exact."""
    if function(node) != "add" or len(node.args) < 2 or node.args[0] != node.args[1] or not _floating(node):
        return None
    return _call(node, "aten.mul.Tensor", node.args[0], 2.0) if node.kwargs.get("alpha", 1) == 1 else None


def merged_scales(editor: Editor, node: Node) -> Node | None:
    """(x * a) * b -> x * (a b). Rounds once instead of twice; a b must stay an ordinary number."""
    outer = _scaled(editor, Ref(node=node.name))
    inner = _scaled(editor, outer[0]) if outer else None
    if outer is None or inner is None or editor.uses(outer[0].node) != 1:
        return None
    factor = outer[1] * inner[1]
    if not all(2.0**-60 < abs(value) < 2.0**60 for value in (outer[1], inner[1], factor)):
        return None
    return _call(node, "aten.mul.Tensor", inner[0], factor)


def merged_shifts(editor: Editor, node: Node) -> Node | None:
    """(x + a) + b -> x + (a + b), unless a and b cancel."""
    outer = _shifted(editor, Ref(node=node.name))
    inner = _shifted(editor, outer[0]) if outer else None
    if outer is None or inner is None or editor.uses(outer[0].node) != 1:
        return None
    total = outer[1] + inner[1]
    if not math.isfinite(total) or abs(total) < _KEPT_DIGITS * max(abs(outer[1]), abs(inner[1])):
        return None
    return _call(node, "aten.add.Tensor", inner[0], total)


def scaled_residual(editor: Editor, node: Node) -> Node | None:
    """Residual: x * s + x -> x * (s + 1), unless s is near -1."""
    if (
        function(node) != "add"
        or len(node.args) < 2
        or not _floating(node)
        or node.kwargs.get("alpha", 1) != 1
    ):
        return None
    for term, x in ((node.args[0], node.args[1]), (node.args[1], node.args[0])):
        scaled = _scaled(editor, term)
        if scaled is not None and scaled[0] == x and isinstance(term, Ref) and editor.uses(term.node) == 1:
            factor = scaled[1] + 1.0
            if math.isfinite(factor) and abs(factor) >= _KEPT_DIGITS * max(abs(scaled[1]), 1.0):
                return _call(node, "aten.mul.Tensor", x, factor)
    return None


def exp_of_log_softmax(editor: Editor, node: Node) -> Node | None:
    """exp(log_softmax(x)) -> softmax(x)."""
    inner = editor.producer(node.args[0]) if node.args else None
    if function(node) != "exp" or inner is None or function(inner) != "_log_softmax":
        return None
    if editor.uses(inner.name) != 1 or inner.outputs[0] != node.outputs[0]:
        return None
    return _call(node, "aten._softmax.default", *inner.args)


_GLOBAL_MEANS = frozenset({"_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
                           "adaptive_avg_pool3d"})  # fmt: skip
_GLOBAL_MAXIMA = frozenset({"adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"})


def global_pool(editor: Editor, node: Node) -> Node | None:
    """Adaptive pooling to one element per plane -> a mean or maximum over the plane, which row kernels know."""
    name, size = function(node), node.args[1] if len(node.args) > 1 else None
    spec = node.outputs[0]
    if name not in _GLOBAL_MEANS | _GLOBAL_MAXIMA or spec is None or not isinstance(size, tuple):
        return None
    if any(item != 1 for item in size) or (len(node.outputs) > 1 and editor.uses_of(node.name, 1)):
        return None
    axes: Arg = tuple(range(-len(size), 0))
    op = "aten.mean.dim" if name in _GLOBAL_MEANS else "aten.amax.default"
    return _call(node, op, node.args[0], axes, True).model_copy(update={"outputs": (spec,)})
