"""What is known about a value's range without running: [0, inf) after relu, [0, 1] after sigmoid, ..."""

from __future__ import annotations

import math

from kernelskill.program.rewrite.editor import VIEWS, Editor, argument, function
from kernelskill.records.graph import Arg, Node, Ref

Range = tuple[float, float]
EVERYTHING: Range = (-math.inf, math.inf)
_FIXED: dict[str, Range] = {
    "relu": (0.0, math.inf), "exp": (0.0, math.inf), "sqrt": (0.0, math.inf), "rsqrt": (0.0, math.inf),
    "abs": (0.0, math.inf), "sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "hardsigmoid": (0.0, 1.0),
    "_softmax": (0.0, 1.0), "_log_softmax": (-math.inf, 0.0),
    "erf": (-1.0, 1.0), "sin": (-1.0, 1.0), "cos": (-1.0, 1.0), "relu6": (0.0, 6.0),
}  # fmt: skip
_SELECT = frozenset({"amax", "amin", "max", "min", "flip", "clone", "gather", "index_select", "repeat",
                     "max_pool2d_with_indices", "max_pool3d_with_indices", "contiguous"}) | VIEWS  # fmt: skip
_SIGN_ONLY = frozenset({"sum", "mean", "avg_pool2d", "avg_pool3d", "cumsum", "prod", "cumprod"})
_DEPTH = 12


def clamp_limits(editor: Editor, node: Node) -> tuple[float | None, float | None] | None:
    """(low, high) of relu, relu6, clamp, clamp_min, clamp_max and hardtanh; None when not such or not constant."""
    name = function(node)
    if name == "relu":
        return 0.0, None
    if name == "relu6":
        return 0.0, 6.0
    if node.op not in {"aten.clamp.default", "aten.hardtanh.default", "aten.clamp_min.default",
                       "aten.clamp_max.default"}:  # fmt: skip
        return None
    if name == "hardtanh":
        low, high = argument(node, 1, "min_val", -1.0), argument(node, 2, "max_val", 1.0)
    elif name == "clamp_max":
        low, high = None, argument(node, 1, "max")
    else:
        low, high = argument(node, 1, "min"), argument(node, 2, "max") if name == "clamp" else None
    limits = [None if side is None else editor.number(side) for side in (low, high)]
    if (low is not None and limits[0] is None) or (high is not None and limits[1] is None):
        return None
    return limits[0], limits[1]


def bounds(editor: Editor, value: Arg, depth: int = _DEPTH) -> Range:
    """The smallest known interval of a value's non-NaN elements. NaN passes every operator used here."""
    number = editor.number(value)
    if number is not None:
        return number, number
    node = editor.nodes.get(value.node) if isinstance(value, Ref) else None
    if node is None or depth == 0 or not isinstance(value, Ref) or value.output != 0 or not node.args:
        return EVERYTHING
    name = function(node)
    limits = clamp_limits(editor, node)
    inner = bounds(editor, node.args[0], depth - 1)
    if limits is not None:
        low = -math.inf if limits[0] is None else limits[0]
        high = math.inf if limits[1] is None else limits[1]
        # min(max(x, low), high): high wins when the limits cross.
        return min(max(inner[0], low), high), min(max(inner[1], low), high)
    if name in _FIXED:
        return _FIXED[name]
    if name in _SELECT:
        return EVERYTHING if node.op in {"aten.max.other", "aten.min.other"} else inner
    if name in _SIGN_ONLY:
        return (0.0, math.inf) if inner[0] >= 0 else EVERYTHING
    if name == "pow" and argument(node, 1, "exponent") in (2, 4):
        return 0.0, math.inf
    if name in {"mul", "add"} and len(node.args) > 1 and node.kwargs.get("alpha", 1) == 1:
        if name == "mul" and node.args[0] == node.args[1]:
            return 0.0, math.inf
        other = bounds(editor, node.args[1], depth - 1)
        return (0.0, math.inf) if inner[0] >= 0 and other[0] >= 0 else EVERYTHING
    return EVERYTHING
