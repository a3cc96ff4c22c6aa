"""Run a captured graph with torch's own operators."""

import torch

from kernelskill.records import NonFinite, Ref

DTYPES = {
    name: getattr(torch, name)
    for name in [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    ]
}
OTHERS = {
    "strided": torch.strided,
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}


def interpret(graph, leaves, state):
    """Output leaves and new buffer values.

    Args:
        graph: records.Graph.
        leaves: tensor leaves of the arguments.
        state: parameters and buffers by qualified name.
    """
    values = {item.name: (leaves[item.leaf],) for item in graph.inputs}
    for item in graph.state:
        constant = item.kind == "constant"
        values[item.name] = (
            torch.tensor(item.value, dtype=DTYPES[item.spec.dtype]) if constant else state[item.path],
        )

    def real(arg):
        if isinstance(arg, Ref):
            return values[arg.node][arg.output]
        if isinstance(arg, NonFinite):
            return float(arg.number)
        if isinstance(arg, tuple):
            return [real(item) for item in arg]
        return arg

    def keyword(operator, name, arg):
        kind = str(next(item.type for item in operator._schema.arguments if item.name == name))
        if isinstance(arg, str) and "str" not in kind:
            return DTYPES.get(arg) or OTHERS.get(arg) or torch.device(arg)
        return real(arg)

    for node in graph.nodes:
        _, name, overload = node.op.split(".")
        operator = getattr(getattr(torch.ops.aten, name), overload)
        schema = operator._schema.arguments
        args = [keyword(operator, schema[place].name, arg) for place, arg in enumerate(node.args)]
        kwargs = {name: keyword(operator, name, arg) for name, arg in node.kwargs.items()}
        result = operator(*args, **kwargs)
        values[node.name] = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        for value, spec in zip(values[node.name], node.outputs, strict=True):
            if spec is not None:
                assert tuple(value.shape) == spec.shape, node
                assert str(value.dtype) == f"torch.{spec.dtype}", node
                assert value.numel() == 0 or tuple(value.stride()) == spec.stride, node
    return [real(item) for item in graph.outputs], {path: real(ref) for path, ref in graph.updates.items()}
