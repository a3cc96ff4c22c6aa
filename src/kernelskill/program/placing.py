"""Nodes of a graph as values of a kernel: one node after the other is placed in the kernel's space."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.expand import HEADS, NLL, Argument, expand
from kernelskill.program.lowering import CREATE, RULES, created_value, is_pointwise, number
from kernelskill.program.values import Builder, Dims, Value
from kernelskill.program.views import VIEWS, View, seen_through, within
from kernelskill.records import FLOATING, Arg, Node, Ref, TensorSpec

Views = dict[tuple[str, int], View]
"""Views of outside tensors, by node and result."""


def place(node: Node, builder: Builder, names: set[str], views: Views | None = None) -> None:
    """Add one node's results to the kernel.

    Args:
        node: one of the kernel's nodes; those before it are placed.
        builder: where values are placed.
        names: all nodes of the kernel.
        views: views of outside tensors met so far; the node is added to them if it is one.
    """
    views = {} if views is None else views

    def argument(arg: Arg, dims: Dims | None = None) -> Value:
        if not isinstance(arg, Ref):
            raise ProgramError(f"{node.name}: a tensor was expected")
        if (arg.node, arg.output) in views:
            view = views[arg.node, arg.output]
            return builder.load(view.root, builder.aligned(view.spec, dims), view.spec, view.offset)
        if arg.node in names:
            value = builder.values.get((arg.node, arg.output))
            if value is None:
                raise ProgramError(f"{arg.node}[{arg.output}] is not computed")
            return value
        spec = builder.specs[arg.node, arg.output]
        return builder.load(arg, builder.aligned(spec, dims))

    if node.op in HEADS or node.op in NLL:
        for output, value in enumerate(expand(node, builder, argument)):
            if value is not None:
                builder.values[node.name, output] = value
    elif node.op in CREATE:
        constant = created_value(node)
        if constant is None:
            raise ProgramError(f"{node.name} is not a constant tensor")
        value = builder.emit("copy", constant)
        spec = node.outputs[0]
        assert spec is not None
        value.dims = tuple(() for _ in spec.shape)
        builder.values[node.name, 0] = value
    elif node.op in VIEWS:
        _place_view(node, builder, views)
    elif is_pointwise(node):
        builder.values[node.name, 0] = _pointwise(node, builder, argument)
    else:
        raise ProgramError(f"{node.op} is not part of kernels")


def _place_view(node: Node, builder: Builder, views: Views) -> None:
    source = node.args[0]
    assert isinstance(source, Ref)
    key = (source.node, source.output)
    if key in builder.values:
        builder.values[node.name, 0] = within(node, builder, builder.values[key])
        return
    for output, view in enumerate(seen_through(node, views.get(key, View(source, builder.specs[key], 0)))):
        views[node.name, output] = view


def _pointwise(node: Node, builder: Builder, argument: Argument) -> Value:
    """Operands from outside are aligned to those inside, or to the space where all come from outside."""
    spec = node.outputs[0]
    assert spec is not None
    inside = [
        builder.values[ref.node, ref.output].dims
        for ref in node.refs()
        if (ref.node, ref.output) in builder.values and builder.values[ref.node, ref.output].dims
    ]
    like: Dims | None = max(inside, key=len) if inside else None
    if like is not None and (len(like) < len(spec.shape) or builder_shape(builder, like) != spec.shape):
        like = builder.aligned(spec)

    def resolve(arg: Arg) -> Value | float | None:
        if isinstance(arg, Ref):
            return argument(arg, like)
        value = number(arg)
        return value if value is not None else arg  # type: ignore[return-value]

    kwargs = {
        name: resolve(arg)
        for name, arg in node.kwargs.items()
        if name not in {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"}
    }
    whole = [spec for spec in _input_specs(node, builder) if spec.dtype in {"int64", "int32"}]
    if whole and not _is_exact(node, len(whole)):
        raise ProgramError(f"{node.name} computes with whole numbers that float32 may not hold")
    value = RULES[node.op](builder.emit, *(resolve(arg) for arg in node.args), **kwargs)
    if not isinstance(value, Value):
        raise ProgramError(f"{node.name} computes nothing")
    if spec.dtype == "bool" and not value.is_mask:
        value = builder.emit("to_mask", value)
    elif spec.dtype != "bool" and value.is_mask:
        value = builder.emit("to_float", value)
    if spec.dtype not in {"float32", "float16", "bfloat16", "bool"}:
        raise ProgramError(f"{node.name} gives {spec.dtype}: kernels compute in float32")
    if len(value.dims) < len(spec.shape):
        value = builder.emit("copy", value)
        value.dims = (*((),) * (len(spec.shape) - len(value.dims)), *value.dims)
    return value


LARGEST_WHOLE = 1 << 24
"""Whole numbers up to here are exact in float32."""


def _input_specs(node: Node, builder: Builder) -> list[TensorSpec]:
    return [builder.specs[ref.node, ref.output] for ref in node.refs()]


def _is_exact(node: Node, whole: int) -> bool:
    """Whether rounding its whole-number inputs to float32 changes nothing that torch would not change as well."""
    name = node.op.removeprefix("aten.").split(".")[0]
    if name in {"eq", "ne", "lt", "le", "gt", "ge"}:
        constants = [number(arg) for arg in node.args if not isinstance(arg, Ref)]
        return whole == 1 and all(item is not None and abs(item) < LARGEST_WHOLE for item in constants)
    spec = node.outputs[0]
    return spec is not None and spec.dtype in FLOATING


def builder_shape(builder: Builder, dims: Dims) -> tuple[int, ...]:
    """Sizes of dims."""
    return tuple(builder.space.extent(axes) for axes in dims)
