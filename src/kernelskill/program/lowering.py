"""Element-wise ATen operators as scalar operations on floats and masks.

Each rule gets `emit` (adds an operation, returns its name) and the arguments, where tensors are names of values and
numbers stay numbers. The formulas are those that PyTorch documents for each operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kernelskill.records import Arg, Node, NonFinite

Value = Any
Emit = Callable[..., Any]
Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a rule for ATen overloads."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            RULES[f"aten.{operator}"] = function
        return function

    return register


def number(value: Arg) -> float | None:
    """A plain number among the arguments, or None."""
    if isinstance(value, NonFinite):
        return float(value.number)
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) else None


def is_pointwise(node: Node) -> bool:
    """Whether the node computes each output element from the elements at its place."""
    return node.op in RULES and len(node.outputs) == 1 and node.outputs[0] is not None


def _simple(fn: str, *operators: str) -> None:
    for operator in operators:
        RULES[f"aten.{operator}"] = lambda emit, x, fn=fn: emit(fn, x)


for _fn, _names in {
    "abs": "abs", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "tanh": "tanh", "sigmoid": "sigmoid", "erf": "erf", "sin": "sin", "cos": "cos", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "round": "round", "neg": "neg", "sign": "sign",
    "not": "logical_not bitwise_not",
}.items():  # fmt: skip
    _simple(_fn, *(f"{_name}.default" for _name in _names.split()))

for _fn, _names in {"maximum": "max", "minimum": "min"}.items():
    RULES[f"aten.{_fn}.default"] = lambda emit, x, y, fn=_names: emit(fn, x, y)

for _fn in ("lt", "le", "gt", "ge", "eq", "ne"):
    for _kind in ("Scalar", "Tensor"):
        RULES[f"aten.{_fn}.{_kind}"] = lambda emit, x, y, fn=_fn: emit(fn, x, y)

for _fn in ("and", "or", "xor"):
    for _name in (f"logical_{_fn}.default", f"bitwise_{_fn}.Tensor"):
        RULES[f"aten.{_name}"] = lambda emit, x, y, fn=_fn: emit(fn, x, y)


@rule("add.Tensor", "add.Scalar")
def _add(emit: Emit, x: Value, y: Value, alpha: float = 1) -> Value:
    return emit("add", x, y if alpha == 1 else emit("mul", y, alpha))


@rule("sub.Tensor", "sub.Scalar")
def _sub(emit: Emit, x: Value, y: Value, alpha: float = 1) -> Value:
    return emit("sub", x, y if alpha == 1 else emit("mul", y, alpha))


@rule("rsub.Scalar", "rsub.Tensor")
def _rsub(emit: Emit, x: Value, y: Value, alpha: float = 1) -> Value:
    return emit("sub", y, x if alpha == 1 else emit("mul", x, alpha))


@rule("mul.Tensor", "mul.Scalar")
def _mul(emit: Emit, x: Value, y: Value) -> Value:
    return emit("mul", x, y)


@rule("div.Tensor", "div.Scalar")
def _div(emit: Emit, x: Value, y: Value) -> Value:
    if isinstance(y, float | int) and y != 0 and math.frexp(y)[0] in (0.5, -0.5):
        return emit("mul", x, 1.0 / y)
    return emit("div", x, y)


@rule("reciprocal.default")
def _reciprocal(emit: Emit, x: Value) -> Value:
    return emit("div", 1.0, x)


@rule("square.default")
def _square(emit: Emit, x: Value) -> Value:
    return emit("mul", x, x)


@rule("exp2.default")
def _exp2(emit: Emit, x: Value) -> Value:
    return emit("pow", 2.0, x)


@rule("log2.default")
def _log2(emit: Emit, x: Value) -> Value:
    return emit("mul", emit("log", x), 1 / math.log(2))


@rule("log10.default")
def _log10(emit: Emit, x: Value) -> Value:
    return emit("mul", emit("log", x), 1 / math.log(10))


@rule("pow.Tensor_Scalar")
def _pow(emit: Emit, x: Value, exponent: float) -> Value:
    if exponent == 0.5:
        return emit("sqrt", x)
    if exponent == -0.5:
        return emit("rsqrt", x)
    if exponent in (1, 2, 3, 4):
        result = x
        if exponent in (2, 4):
            result = emit("mul", x, x)
        if exponent == 4:
            return emit("mul", result, result)
        if exponent == 3:
            return emit("mul", emit("mul", x, x), x)
        return emit("copy", x) if exponent == 1 else result
    if exponent in (-1, -2):
        return emit("div", 1.0, x if exponent == -1 else emit("mul", x, x))
    return emit("pow", x, exponent)


@rule("pow.Tensor_Tensor", "pow.Scalar")
def _pow_general(emit: Emit, x: Value, y: Value) -> Value:
    return emit("pow", x, y)


@rule("clamp.default", "clamp.Tensor")
def _clamp(emit: Emit, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    if low is not None:
        x = emit("max", x, low)
    return emit("min", x, high) if high is not None else emit("copy", x) if low is None else x


@rule("clamp_min.default", "clamp_min.Tensor")
def _clamp_min(emit: Emit, x: Value, low: Value) -> Value:
    return emit("max", x, low)


@rule("clamp_max.default", "clamp_max.Tensor")
def _clamp_max(emit: Emit, x: Value, high: Value) -> Value:
    return emit("min", x, high)


@rule("relu.default")
def _relu(emit: Emit, x: Value) -> Value:
    return emit("max", x, 0.0)


@rule("hardtanh.default")
def _hardtanh(emit: Emit, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return emit("min", emit("max", x, low), high)


@rule("relu6.default")
def _relu6(emit: Emit, x: Value) -> Value:
    return _hardtanh(emit, x, 0.0, 6.0)


@rule("hardsigmoid.default")
def _hardsigmoid(emit: Emit, x: Value) -> Value:
    return emit("div", _relu6(emit, emit("add", x, 3.0)), 6.0)


@rule("hardswish.default")
def _hardswish(emit: Emit, x: Value) -> Value:
    return emit("div", emit("mul", x, _relu6(emit, emit("add", x, 3.0))), 6.0)


@rule("leaky_relu.default")
def _leaky_relu(emit: Emit, x: Value, slope: float = 0.01) -> Value:
    return emit("where", emit("gt", x, 0.0), x, emit("mul", x, slope))


@rule("elu.default")
def _elu(emit: Emit, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    scaled = x if input_scale == 1 else emit("mul", x, input_scale)
    low = emit("expm1", scaled)
    low = low if alpha * scale == 1 else emit("mul", low, alpha * scale)
    high = x if scale == 1 else emit("mul", x, scale)
    return emit("where", emit("gt", x, 0.0), high, low)


@rule("selu.default")
def _selu(emit: Emit, x: Value) -> Value:
    return _elu(emit, x, SELU_ALPHA, SELU_SCALE)


@rule("gelu.default")
def _gelu(emit: Emit, x: Value, approximate: str = "none") -> Value:
    half = emit("mul", x, 0.5)
    if approximate == "tanh":
        cube = emit("mul", emit("mul", x, x), x)
        inner = emit("mul", emit("add", x, emit("mul", cube, 0.044715)), SQRT_2_OVER_PI)
        return emit("mul", half, emit("add", emit("tanh", inner), 1.0))
    return emit("mul", half, emit("add", emit("erf", emit("mul", x, SQRT_HALF)), 1.0))


@rule("silu.default")
def _silu(emit: Emit, x: Value) -> Value:
    return emit("mul", x, emit("sigmoid", x))


@rule("softplus.default")
def _softplus(emit: Emit, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    scaled = x if beta == 1 else emit("mul", x, beta)
    soft = emit("log1p", emit("exp", scaled))
    soft = soft if beta == 1 else emit("div", soft, beta)
    return emit("where", emit("gt", scaled, threshold), x, soft)


@rule("mish.default")
def _mish(emit: Emit, x: Value) -> Value:
    return emit("mul", x, emit("tanh", _softplus(emit, x)))


@rule("log_sigmoid_forward.default")
def _log_sigmoid(emit: Emit, x: Value) -> Value:
    gentle = emit("log1p", emit("exp", emit("neg", emit("abs", x))))
    return emit("sub", emit("min", x, 0.0), gentle)


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(emit: Emit, mask: Value, x: Value, y: Value) -> Value:
    return emit("where", mask, x, y)


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(emit: Emit, x: Value, mask: Value, value: Value) -> Value:
    return emit("where", mask, value, x)


@rule("clone.default", "_to_copy.default", "alias.default", "lift_fresh_copy.default", "detach.default")
def _copy(emit: Emit, x: Value, **_: Arg) -> Value:
    return emit("cast", x)


@rule("fill.Scalar", "full_like.default")
def _fill(emit: Emit, _: Value, value: Value, **__: Arg) -> Value:
    return emit("copy", value)


@rule("zeros_like.default")
def _zeros(emit: Emit, _: Value, **__: Arg) -> Value:
    return emit("copy", 0.0)


@rule("ones_like.default")
def _ones(emit: Emit, _: Value, **__: Arg) -> Value:
    return emit("copy", 1.0)


@rule("isnan.default")
def _isnan(emit: Emit, x: Value) -> Value:
    return emit("ne", x, x)


@rule("isinf.default")
def _isinf(emit: Emit, x: Value) -> Value:
    return emit("eq", emit("abs", x), math.inf)


@rule("lerp.Scalar", "lerp.Tensor")
def _lerp(emit: Emit, x: Value, y: Value, weight: Value) -> Value:
    return emit("add", x, emit("mul", weight, emit("sub", y, x)))


CREATE = frozenset(
    ["aten.full.default", "aten.scalar_tensor.default", "aten.zeros.default", "aten.ones.default"]
)
"""Constant tensors: their value is a number wherever they are used."""


def created_value(node: Node) -> float | None:
    """The number that a constant tensor holds, or None if the node is not one."""
    if node.op not in CREATE:
        return None
    if node.op in {"aten.zeros.default", "aten.ones.default"}:
        return float(node.op == "aten.ones.default")
    position = 0 if node.op == "aten.scalar_tensor.default" else 1
    return number(node.args[position]) if len(node.args) > position else None
