"""Arithmetic that each ATen operator needs, by one table: floating-point operations and transcendentals.

All counts are lower bounds: an operator that the table doesn't know needs nothing, a multiply-add counts as two
operations, integers count as nothing. Convolutions count the direct algorithm without the taps that fall on padding
(a fast algorithm, such as Winograd's, may need fewer multiplications).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kernelskill.records import FLOATING, Arg, Node, TensorSpec
from kernelskill.records.operators import Family, family, function


class Work(NamedTuple):
    """Arithmetic of one node."""

    flops: float = 0.0
    transcendentals: float = 0.0

    def times(self, share: float) -> Work:
        """A share of it."""
        return Work(self.flops * share, self.transcendentals * share)


class Call(NamedTuple):
    """A node with the layouts of the tensors that it uses."""

    node: Node
    inputs: tuple[TensorSpec, ...]
    """Tensor operands in order of use."""

    @property
    def out(self) -> TensorSpec | None:
        """Layout of the first result."""
        return self.node.outputs[0] if self.node.outputs else None

    @property
    def out_elements(self) -> int:
        """Elements of the first result."""
        return self.out.numel if self.out else 0

    @property
    def in_elements(self) -> int:
        """Elements of the first operand."""
        return self.inputs[0].numel if self.inputs else 0

    def argument(self, index: int, name: str, default: Arg = None) -> Arg:
        """An argument by position or by name."""
        return self.node.args[index] if index < len(self.node.args) else self.node.kwargs.get(name, default)


_EVALUATED = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erf
    erfc erfinv tanh lgamma digamma"""
_SQUASHED = "sigmoid logit log_sigmoid log_sigmoid_forward softplus elu selu celu"
_FREE = "abs neg copysign sign sgn isnan isinf isfinite signbit fill logical_not"
_PER_ELEMENT: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_EVALUATED.split(), (0, 1)),
    **dict.fromkeys(_SQUASHED.split(), (1, 1)),
    **dict.fromkeys(_FREE.split(), (0, 0)),
    "silu": (2, 1), "mish": (2, 1), "gelu": (4, 1), "tanhshrink": (1, 1), "logaddexp": (3, 1), "logaddexp2": (3, 1),
    "xlogy": (1, 1), "special_xlog1py": (1, 1), "glu": (2, 1),
    "hardsigmoid": (3, 0), "hardswish": (4, 0), "hardtanh": (1, 0), "relu": (1, 0), "relu6": (1, 0),
    "leaky_relu": (1, 0), "softsign": (2, 0), "addcmul": (2, 0), "addcdiv": (2, 0), "lerp": (2, 0), "hypot": (3, 0),
    "upsample_bilinear2d": (6, 0), "upsample_linear1d": (2, 0), "upsample_trilinear3d": (14, 0),
}  # fmt: skip
"""Elementwise operator -> operations and transcendentals per result; all others need one operation."""
_PER_INPUT = {"var": 3.0, "std": 3.0, "var_mean": 3.0, "std_mean": 3.0, "norm": 2.0, "linalg_vector_norm": 2.0,
              "mse_loss": 3.0, "l1_loss": 2.0, "smooth_l1_loss": 4.0, "huber_loss": 4.0, "nll_loss_forward": 0.0,
              "cosine_similarity": 6.0, "binary_cross_entropy": 3.0, "kl_div": 2.0}  # fmt: skip
"""Reduction -> operations per element reduced; all others need one."""


def work(call: Call) -> Work:
    """Lower bound of the arithmetic of one node."""
    rule = _RULES.get(family(call.node.op))
    if rule is None or not _is_floating(call):
        return Work()
    return rule(call)


def is_transcendental(node: Node) -> bool:
    """Whether an elementwise node evaluates a transcendental function."""
    return family(node.op) == "elementwise" and _elementwise_cost(node)[1] > 0


def _is_floating(call: Call) -> bool:
    specs = (*call.inputs, *(spec for spec in call.node.outputs if spec))
    return any(spec.dtype in FLOATING for spec in specs)


def _elementwise_cost(node: Node) -> tuple[float, float]:
    name = function(node.op)
    if name != "pow":
        return _PER_ELEMENT.get(name, (1, 0))
    exponent = node.args[1] if len(node.args) > 1 else None
    if isinstance(exponent, (int, float)) and (2 * exponent) % 1 == 0:
        return (max(1.0, math.ceil(math.log2(max(abs(exponent), 1)))), 0)
    return (0, 1)


def _elementwise(call: Call) -> Work:
    flops, transcendentals = _elementwise_cost(call.node)
    return Work(flops * call.out_elements, transcendentals * call.out_elements)


def _reduction(call: Call) -> Work:
    per_input = _PER_INPUT.get(function(call.node.op), 1.0)
    return Work(max(0.0, per_input * call.in_elements - call.out_elements))


def _softmax(call: Call) -> Work:
    """Maximum, difference, exponential, sum; then a scale or a difference (logsumexp writes no row)."""
    elements = call.in_elements
    return Work((3.0 if "logsumexp" in function(call.node.op) else 4.0) * elements, elements)


def _norm(call: Call) -> Work:
    """Sum, sum of squares (three per element), then one multiply-add."""
    return Work(5.0 * call.in_elements)


def _scan(call: Call) -> Work:
    return Work(call.in_elements, call.in_elements if function(call.node.op) == "logcumsumexp" else 0)


def _pool(call: Call) -> Work:
    """At least one operation per element read or window, whichever way the windows share their work."""
    window = call.argument(1, "kernel_size", 1)
    taps = (
        math.prod(_numbers(window))
        if not function(call.node.op).lstrip("_").startswith("adaptive")
        else math.inf
    )
    return Work(min(call.out_elements * max(taps - 1, 0), call.in_elements + call.out_elements))


def _matmul(call: Call) -> Work:
    """Two operations per product term; a bias is where the sum begins."""
    name, specs = function(call.node.op), call.inputs
    added = name in {"addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"}
    left = specs[1 if added else 0] if len(specs) > added else None
    if left is None or name in {"einsum", "bilinear", "chain_matmul", "tensordot"}:
        return Work()
    if name in {"addr", "outer", "ger"}:
        return Work(call.out_elements)
    if name in {"dot", "vdot"}:
        return Work(2.0 * left.numel)
    terms = left.shape[-1] if left.shape else 1
    batches = left.shape[0] if name == "addbmm" else 1
    return Work(2.0 * terms * batches * call.out_elements)


def _convolution(call: Call) -> Work:
    if call.out is None or len(call.inputs) < 2:
        return Work()
    name = function(call.node.op)
    general = name in {"convolution", "_convolution", "convolution_overrideable"}
    transposed = bool(call.argument(6, "transposed")) if general else "transpose" in name
    x, weight, out = call.inputs[0], call.inputs[1], call.out
    dims = len(weight.shape) - 2
    stride = _each(call.argument(3, "stride", 1), dims)
    padding = _each(call.argument(4, "padding", 0), dims)
    index = 7 if "transpose" in name else 5
    dilation = _each(call.argument(index, "dilation", 1), dims)
    small, large = (x, out) if transposed else (out, x)
    pairs = math.prod(
        _taps(
            small.shape[-dims + i],
            large.shape[-dims + i],
            weight.shape[2 + i],
            stride[i],
            padding[i],
            dilation[i],
        )
        for i in range(dims)
    )
    batch = math.prod(x.shape[: -1 - dims])
    channels = (
        weight.shape[0] * weight.shape[1]
    )  # each input channel meets the output channels of its group only
    return Work(2.0 * batch * channels * pairs)


def _taps(small: int, large: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Pairs (position of the strided side, tap) of one axis that meet an element and not padding."""
    total = 0
    for tap in range(kernel):
        shift = padding - tap * dilation  # 0 <= position * stride - shift < large
        first = max(0, -(-shift // stride))
        last = min(small - 1, (large - 1 + shift) // stride)
        total += max(0, last - first + 1)
    return total


def _attention(call: Call) -> Work:
    """Scores and weighted sum; half of them under a causal mask."""
    if len(call.inputs) < 3:
        return Work()
    query, key, value = call.inputs[:3]
    causal_index = 4 if "flash" in function(call.node.op) else 5
    share = 0.5 if call.argument(causal_index, "is_causal", False) is True else 1.0
    scores = query.numel // max(query.shape[-1], 1) * key.shape[-2] * share
    return Work(scores * (2.0 * (query.shape[-1] + value.shape[-1]) + 3), scores)


def _recurrent(call: Call) -> Work:
    """Every weight matrix meets every time step of every sequence once; gates squash each hidden unit."""
    if not call.inputs or len(call.inputs[0].shape) < 2:
        return Work()
    steps = call.inputs[0].numel / max(call.inputs[0].shape[-1], 1)
    matrices = [spec for spec in call.inputs[1:] if len(spec.shape) == 2]
    hidden = matrices[1::2]  # input and hidden matrices alternate
    return Work(
        2.0 * steps * sum(spec.numel for spec in matrices), steps * sum(spec.shape[0] for spec in hidden)
    )


def _numbers(value: Arg) -> Iterator[int]:
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, int):
            yield item


def _each(value: Arg, dims: int) -> tuple[int, ...]:
    """One number per spatial axis; a single one stands for all ("same"/"valid" count as no padding)."""
    numbers = tuple(_numbers(value)) or (0,)
    return numbers * dims if len(numbers) == 1 else numbers


_RULES: dict[Family, Callable[[Call], Work]] = {
    "elementwise": _elementwise,
    "reduction": _reduction,
    "softmax": _softmax,
    "norm": _norm,
    "scan": _scan,
    "pool": _pool,
    "conv": _convolution,
    "matmul": _matmul,
    "attention": _attention,
    "recurrent": _recurrent,
}
