"""Reductions, normalisations, softmax and losses as folds and scalar operations in the kernel's space."""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelskill.errors import ProgramError
from kernelskill.program.lowering import number
from kernelskill.program.values import Builder, Dims, Space, Value
from kernelskill.records import Arg, Node, Ref, TensorSpec

Results = tuple[Value | None, ...]

FOLDS = {
    "aten.sum.dim_IntList": "sum", "aten.sum.default": "sum", "aten.mean.dim": "mean", "aten.mean.default": "mean",
    "aten.amax.default": "max", "aten.amin.default": "min", "aten.max.default": "max", "aten.min.default": "min",
    "aten.max.dim": "max", "aten.min.dim": "min", "aten.argmax.default": "argmax", "aten.argmin.default": "argmin",
    "aten.prod.dim_int": "prod", "aten.prod.default": "prod",
    "aten.any.dim": "any", "aten.any.default": "any", "aten.all.dim": "all", "aten.all.default": "all",
    "aten.any.dims": "any", "aten.var.correction": "var", "aten.std.correction": "std",
    "aten.linalg_vector_norm.default": "norm",
}  # fmt: skip
SOFTMAX = {
    "aten._softmax.default": "softmax",
    "aten._log_softmax.default": "log_softmax",
    "aten.logsumexp.default": "logsumexp",
}
BATCH_NORMS = ("aten._native_batch_norm_legit_functional.default", "aten._native_batch_norm_legit.no_stats")
NORMS = frozenset(["aten.native_layer_norm.default", "aten.native_group_norm.default", *BATCH_NORMS])
NLL = frozenset(["aten.nll_loss_forward.default", "aten.nll_loss_nd.default", "aten.nll_loss.default"])
HEADS = frozenset([*FOLDS, *SOFTMAX, *NORMS])
"""Operators around which a row kernel may grow."""
LONGEST_COUNTED = 1 << 24
FEW_ROWS_ONE_PASS = 16
"""Below this many rows, softmax is folded in two walks that threads can share."""


def reduced_dims(node: Node, spec: TensorSpec) -> set[int]:
    """Dimensions of the first argument that a node reduces over."""
    rank = len(spec.shape)
    if node.op == "aten.native_layer_norm.default":
        count = len(_list(node.args[1]))
        return set(range(rank - count, rank))
    if node.op in BATCH_NORMS:
        return {index for index in range(rank) if index != 1}
    if node.op in SOFTMAX:
        return {index % max(rank, 1) for index in _list(node.args[1])}
    position = 2 if FOLDS.get(node.op) == "norm" else 1
    given = node.args[position] if len(node.args) > position else node.kwargs.get("dim")
    if node.op.endswith(".default") and FOLDS[node.op] not in {"norm"} and node.op not in {
        "aten.amax.default", "aten.amin.default", "aten.argmax.default", "aten.argmin.default",
    }:  # fmt: skip
        given = None
    dims = {index % max(rank, 1) for index in _list(given)}
    return dims or set(range(rank))


def space_for(node: Node, spec: TensorSpec) -> Space:
    """The space in which a reducing node is a row kernel."""
    if node.op == "aten.native_group_norm.default":
        groups = int(number(node.args[6]) or 1)
        channels = spec.shape[1]
        axes = set(range(2, len(spec.shape) + 1))
        return Space.of(spec.shape, axes, {1: (groups, channels // groups)})
    return Space.of(spec.shape, reduced_dims(node, spec))


def expand(node: Node, builder: Builder, argument: Callable[[Arg, Dims | None], Value]) -> Results:
    """Add what a reducing node computes.

    Args:
        node: a node whose operator is in HEADS, or the negative log-likelihood loss.
        builder: where the values are placed.
        argument: gives an argument of the node as a placed value, aligned to the dims given (None: the space).

    Returns:
        One value per result of the node; None for a result that is not computed.
    """
    if node.op in FOLDS:
        return _fold(node, builder, argument)
    if node.op in SOFTMAX:
        return _softmax(node, builder, argument)
    if node.op in NLL:
        return _nll(node, builder, argument)
    if node.op == "aten.native_layer_norm.default":
        return _layer_norm(node, builder, argument)
    if node.op == "aten.native_group_norm.default":
        return _group_norm(node, builder, argument)
    return _batch_norm(node, builder, argument)


Argument = Callable[[Arg, Dims | None], Value]


def _fold(node: Node, builder: Builder, argument: Argument) -> Results:
    value, kind = argument(node.args[0], None), FOLDS[node.op]
    spec_rank = len(value.dims)
    row = builder.is_row(value)
    over = _over(node, value, builder)
    if row:
        if any(value.dims[index] for index in range(spec_rank) if index not in over):
            raise ProgramError("rows are folded all at once or not at all")
        count = math.prod(builder.shape(value))
    else:
        wanted = {axis for index in over for axis in value.dims[index]}
        if kind in {"sum", "mean"} and _long(builder, builder.space.reduce) < _long(builder, wanted):
            return (_grand_total(node, builder, value, over, kind),)
        if _long(builder, wanted) != _long(builder, builder.space.reduce):
            raise ProgramError("folds over different axes do not share a kernel")
        count = math.prod(builder.space.sizes[axis] for axis in builder.space.reduce)
    keepdim = _keepdim(node, kind)

    def fold(name: str, item: Value) -> Value:
        return builder.fold(name, item, keepdim, over)

    if kind == "mean":
        return (builder.emit("mul", fold("sum", value), 1.0 / count, name="mean"),)
    if kind in {"var", "std"}:
        return (_spread(node, builder, value, count, fold),)
    if kind == "norm":
        return (_norm(node, builder, value, fold),)
    if kind in {"argmax", "argmin"}:
        return (_position(builder, value, keepdim, over, kind),)
    folded = fold(kind, value)
    if kind in {"any", "all"}:
        folded = builder.emit("to_mask", folded)
    if node.op in {"aten.max.dim", "aten.min.dim"}:
        return (folded, _position(builder, value, keepdim, over, f"arg{kind}") if not row else None)
    return (folded,)


def _spread(
    node: Node, builder: Builder, value: Value, count: int, fold: Callable[[str, Value], Value]
) -> Value:
    """Variance or standard deviation, in two passes."""
    correction = number(node.kwargs.get("correction", 1))
    freedom = count - (1 if correction is None else correction)
    mean = builder.emit("mul", builder.fold("sum", value, True), 1.0 / count, name="mean")
    apart = builder.emit("sub", value, mean, name="apart")
    squares = fold("sum", builder.emit("mul", apart, apart))
    variance = builder.emit("mul", squares, 1.0 / freedom if freedom > 0 else math.inf, name="variance")
    return variance if FOLDS[node.op] == "var" else builder.emit("sqrt", variance, name="deviation")


def _norm(node: Node, builder: Builder, value: Value, fold: Callable[[str, Value], Value]) -> Value:
    order = number(node.args[1]) if len(node.args) > 1 else number(node.kwargs.get("ord", 2))
    if order == 2:
        return builder.emit("sqrt", fold("sum", builder.emit("mul", value, value)), name="norm")
    if order == 1:
        return fold("sum", builder.emit("abs", value))
    if order == math.inf:
        return fold("max", builder.emit("abs", value))
    raise ProgramError(f"a norm of order {order} is not expanded")


def _position(builder: Builder, value: Value, keepdim: bool, over: set[int], kind: str) -> Value:
    """Where the extreme of a row is; the first place of several, as torch answers."""
    if len(_long(builder, builder.space.reduce)) > 1 or len(over) != 1:
        raise ProgramError("the place of an extreme is counted along one axis")
    if builder.row_length > LONGEST_COUNTED:
        raise ProgramError("places above 2^24 are not exact in float32")
    if builder.is_row(value):
        raise ProgramError("the place of an extreme among rows is not folded")
    place = builder.fold(kind, value, keepdim, over)
    place.is_position = True
    return place


def _grand_total(node: Node, builder: Builder, value: Value, over: set[int], kind: str) -> Value:
    """The sum of whole rows, row by row and then over the rows."""
    everything = math.prod(builder.space.sizes)
    if len(over) != len(value.dims) or math.prod(builder.shape(value)) != everything or _keepdim(node, kind):
        raise ProgramError("folds over different axes do not share a kernel")
    total = builder.fold("sum", builder.fold("sum", value))
    return builder.emit("mul", total, 1.0 / everything, name="mean") if kind == "mean" else total


def _over(node: Node, value: Value, builder: Builder) -> set[int]:
    shape = builder.shape(value)
    return reduced_dims(node, TensorSpec.contiguous(shape))


def _softmax(node: Node, builder: Builder, argument: Argument) -> Results:
    value, kind = argument(node.args[0], None), SOFTMAX[node.op]
    over = _over(node, value, builder)
    if builder.is_row(value) or {axis for index in over for axis in value.dims[index]} != _long(
        builder, builder.space.reduce
    ):
        raise ProgramError("softmax over other axes than the kernel's")
    rows = math.prod(
        size for axis, size in enumerate(builder.space.sizes) if axis not in builder.space.reduce
    )
    contiguous = len(builder.space.reduce) == 1 and (len(builder.space.sizes) - 1) in builder.space.reduce
    if contiguous and rows >= FEW_ROWS_ONE_PASS:
        total = builder.fold("softmax", value)
        top = builder._new(Value("op", "softmax_max", (total,), total.dims, total.level, "top"))
    else:
        top = builder.fold("max", value)
        total = builder.fold("sum", builder.emit("exp", builder.emit("sub", value, top)))
    if kind == "softmax":
        share = builder.emit("div", 1.0, total, name="share")
        return (builder.emit("mul", builder.emit("exp", builder.emit("sub", value, top)), share),)
    if kind == "log_softmax":
        level = builder.emit("log", total, name="log_sum")
        return (builder.emit("sub", builder.emit("sub", value, top), level),)
    result = builder.emit("add", builder.emit("log", total), top)
    keepdim = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
    if not keepdim:
        result = builder.emit("copy", result)
        result.dims = tuple(axes for index, axes in enumerate(result.dims) if index not in over)
    return (result,)


def _nll(node: Node, builder: Builder, argument: Argument) -> Results:
    """-mean or -sum of the log-probabilities of the target classes (no class weights)."""
    defaults: tuple[Arg, ...] = (None, None, None, 1, -100)
    logs, target_ref, weight, reduction, ignored = (*node.args, *defaults[len(node.args) :])
    if weight is not None or reduction == 0 or not isinstance(target_ref, Ref):
        raise ProgramError("weighted or unreduced negative log-likelihood is not expanded")
    value = argument(logs, None)
    if len(value.dims) != 2 or set(value.dims[1]) != builder.space.reduce:
        raise ProgramError("classes must be the reduced axis")
    target = builder.load(target_ref, (value.dims[0],))
    column = builder.emit("copy", target)
    column.dims = (value.dims[0], ())
    chosen = builder.emit("eq", builder.index(), column)
    picked = builder.fold("sum", builder.emit("where", chosen, value, 0.0))
    counts = builder.emit("where", builder.emit("ne", column, float(number(ignored) or -100)), 1.0, 0.0)
    # A value of level 1 or more is folded over rows; the count joins it there.
    counts.level = picked.level
    loss = builder.fold("sum", builder.emit("neg", picked))
    total = builder.fold("sum", counts)
    results = (builder.emit("div", loss, total) if reduction == 1 else loss, total)
    return results[: len(node.outputs)]


def _moments(builder: Builder, value: Value, epsilon: float) -> tuple[Value, Value, Value, Value, int]:
    """Mean, deviation, 1 / sqrt(variance + epsilon), variance, count."""
    count = math.prod(builder.space.sizes[axis] for axis in builder.space.reduce)
    mean = builder.emit("mul", builder.fold("sum", value), 1.0 / count, name="mean")
    apart = builder.emit("sub", value, mean, name="apart")
    squares = builder.fold("sum", builder.emit("mul", apart, apart))
    variance = builder.emit("mul", squares, 1.0 / count, name="variance")
    rstd = builder.emit("rsqrt", builder.emit("add", variance, epsilon), name="rstd")
    return mean, apart, rstd, variance, count


def _affine(builder: Builder, argument: Argument, value: Value, weight: Arg, bias: Arg, dims: Dims) -> Value:
    if weight is not None:
        value = builder.emit("mul", value, argument(weight, dims))
    if bias is not None:
        value = builder.emit("add", value, argument(bias, dims))
    return value


def _layer_norm(node: Node, builder: Builder, argument: Argument) -> Results:
    source, shape, weight, bias, epsilon = node.args[:5]
    value = argument(source, None)
    over = {axis for dims in value.dims[len(value.dims) - len(_list(shape)) :] for axis in dims}
    if over != _long(builder, builder.space.reduce):
        raise ProgramError("normalisation over other axes than the kernel's")
    mean, apart, rstd, _, _ = _moments(builder, value, number(epsilon) or 0.0)
    result = _affine(builder, argument, builder.emit("mul", apart, rstd), weight, bias, builder.space.dims)
    return (result, mean, rstd)


def _group_norm(node: Node, builder: Builder, argument: Argument) -> Results:
    source, weight, bias = node.args[:3]
    value = argument(source, None)
    if builder.space.dims != value.dims or len(builder.space.dims[1]) != 2:
        raise ProgramError("group normalisation in a space of another shape")
    _, apart, rstd, _, _ = _moments(builder, value, number(node.args[7]) or 0.0)
    channels = builder.space.dims[1]
    normal = builder.emit("mul", apart, rstd)
    spread: Dims = (channels, *((),) * (len(value.dims) - 2))
    for operand, fn in ((weight, "mul"), (bias, "add")):
        if isinstance(operand, Ref):
            loaded = builder.emit("copy", builder.load(operand, (channels,)))
            loaded.dims = spread
            normal = builder.emit(fn, normal, loaded)
    return (normal, None, None)


def _batch_norm(node: Node, builder: Builder, argument: Argument) -> Results:
    source, weight, bias = node.args[:3]
    running_mean, running_var = (None, None) if node.op.endswith("no_stats") else node.args[3:5]
    training, momentum, epsilon = node.args[-3:]
    if training is not True:
        raise ProgramError(
            "batch normalisation by running statistics is element-wise; it is not expanded here"
        )
    value = argument(source, None)
    rank = len(value.dims)
    over = {axis for index in range(rank) if index != 1 for axis in value.dims[index]}
    if over != _long(builder, builder.space.reduce):
        raise ProgramError("batch normalisation over other axes than the kernel's")
    mean, apart, rstd, variance, count = _moments(builder, value, number(epsilon) or 0.0)
    channel = value.dims[1]
    column: Dims = (channel, *((),) * (rank - 2))

    def per_channel(operand: Ref) -> Value:
        loaded = builder.emit("copy", builder.load(operand, (channel,)))
        loaded.dims = column
        return loaded

    normal = builder.emit("mul", apart, rstd)
    for operand, fn in ((weight, "mul"), (bias, "add")):
        if isinstance(operand, Ref):
            normal = builder.emit(fn, normal, per_channel(operand))
    step = number(momentum) or 0.0
    updated: list[Value | None] = []
    for running, fresh in (
        (running_mean, mean),
        (running_var, builder.emit("mul", variance, count / max(count - 1, 1))),
    ):
        if not isinstance(running, Ref):
            updated.append(None)
            continue
        new = builder.emit(
            "add", builder.emit("mul", per_channel(running), 1.0 - step), builder.emit("mul", fresh, step)
        )
        updated.append(_flat(builder, new, channel))
    results = (normal, _flat(builder, mean, channel), _flat(builder, rstd, channel), *updated)
    return results[: len(node.outputs)]


def _long(builder: Builder, axes: set[int]) -> set[int]:
    """Those axes that have more than one step."""
    return {axis for axis in axes if builder.space.sizes[axis] > 1}


def _flat(builder: Builder, value: Value, channel: tuple[int, ...]) -> Value:
    flat = builder.emit("copy", value)
    flat.dims = (channel,)
    return flat


def _keepdim(node: Node, kind: str) -> bool:
    if node.op in {"aten.sum.default", "aten.mean.default", "aten.max.default", "aten.min.default",
                   "aten.any.default", "aten.all.default", "aten.prod.default"}:  # fmt: skip
        return False
    position = 3 if kind == "norm" else 2
    given = node.args[position] if len(node.args) > position else node.kwargs.get("keepdim", False)
    return bool(given)


def _list(value: Arg) -> tuple[int, ...]:
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple(int(item) for item in value if isinstance(item, int))
    return (int(value),) if isinstance(value, int | float) else ()
