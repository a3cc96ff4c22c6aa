"""Graphs for tests: built by hand from a few words, or exported from a module by torch itself."""

import math
from typing import Any

from kernelskill.records import Graph, GraphInput, GraphState, Node, NonFinite, Ref, StateSpec, TensorSpec, Workload


def spec(*shape: int, dtype: str = "float32", stride: tuple[int, ...] | None = None) -> TensorSpec:
    plain = TensorSpec.contiguous(shape, dtype)
    return plain if stride is None else plain.model_copy(update={"stride": stride})


def node(name: str, op: str, *args: Any, out: TensorSpec | tuple[TensorSpec, ...], **kwargs: Any) -> Node:
    """Strings among the arguments are names of values ("split.1" is the second result)."""

    def value(item: Any) -> Any:
        if isinstance(item, str):
            base, _, index = item.partition(".")
            return Ref(node=base, output=int(index or 0))
        return tuple(map(value, item)) if isinstance(item, (tuple, list)) else item

    outputs = out if isinstance(out, tuple) else (out,)
    return Node(name=name, op=op, args=tuple(map(value, args)), kwargs=kwargs, outputs=outputs)


def graph(
    inputs: dict[str, TensorSpec],
    nodes: list[Node],
    outputs: list[str],
    state: dict[str, TensorSpec] | None = None,
    updates: dict[str, str] | None = None,
) -> Graph:
    return Graph(
        inputs=tuple(GraphInput(name=name, spec=s, leaf=k) for k, (name, s) in enumerate(inputs.items())),
        state=tuple(GraphState(name=n, path=n, spec=s, kind="parameter") for n, s in (state or {}).items()),
        nodes=tuple(nodes),
        outputs=tuple(
            Ref(node=name.partition(".")[0], output=int(name.partition(".")[2] or 0)) for name in outputs
        ),
        outputs_tree={"tuple": [{"tensor": k} for k in range(len(outputs))]},
        updates={path: Ref(node=name) for path, name in (updates or {}).items()},
    )


def workload(captured: Graph, tied: dict[str, str] | None = None) -> Workload:
    specs = {value.name: value.spec for value in captured.inputs}
    outputs = tuple(captured.spec(ref) for ref in captured.outputs if isinstance(ref, Ref))
    state = tuple(
        StateSpec(path=s.path, spec=s.spec, kind="parameter", tied_to=(tied or {}).get(s.path, ""))
        for s in captured.state
    )
    return Workload(
        inputs=tuple(specs.values()),
        inputs_tree={"list": [{"tensor": k} for k in range(len(specs))]},
        outputs=outputs,
        outputs_tree=captured.outputs_tree,
        state=state,
        eager_ms=1.0,
        graph=captured,
    )


def export(model: Any, *args: Any) -> Graph:
    """What torch.export sees of a module in training mode, as a `Graph`."""
    import torch

    with torch.no_grad():
        program = torch.export.export(model.train(), args).run_decompositions()
    values: dict[str, Ref] = {}

    def layout(value: Any) -> TensorSpec | None:
        if not isinstance(value, torch.Tensor):
            return None
        return TensorSpec(
            shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."), stride=tuple(value.stride())
        )

    def argument(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return values[value.name]
        if isinstance(value, (tuple, list)):
            return tuple(map(argument, value))
        if isinstance(value, float) and not math.isfinite(value):
            return NonFinite(number=str(value))
        return value if isinstance(value, (bool, int, float, type(None))) else str(value).removeprefix("torch.")

    signature = program.graph_signature
    paths = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    inputs, state, nodes, outputs = [], [], [], ()
    for item in program.graph.nodes:
        values[item.name] = Ref(node=item.name)
        seen = item.meta.get("val")
        if item.op == "placeholder" and item.name in paths:
            kind = "parameter" if item.name in signature.inputs_to_parameters else "buffer"
            state.append(GraphState(name=item.name, path=paths[item.name], spec=layout(seen), kind=kind))
        elif item.op == "placeholder":
            inputs.append(GraphInput(name=item.name, spec=layout(seen), leaf=len(inputs)))
        elif item.op == "output":
            outputs = argument(item.args[0])
        elif item.target.__name__ == "getitem":
            values[item.name] = Ref(node=item.args[0].name, output=item.args[1])
        else:
            results = seen if isinstance(seen, (tuple, list)) else (seen,)
            nodes.append(
                Node(
                    name=item.name,
                    op=f"aten.{item.target.__name__}",
                    args=argument(item.args),
                    kwargs={key: argument(value) for key, value in item.kwargs.items()},
                    outputs=tuple(map(layout, results)),
                )
            )
    updates = dict(zip(signature.buffers_to_mutate.values(), outputs, strict=False))
    results = outputs[len(updates) :]
    return Graph(
        inputs=tuple(inputs),
        state=tuple(state),
        nodes=tuple(nodes),
        outputs=results,
        outputs_tree={"tuple": [{"tensor": k} for k in range(len(results))]},
        updates=updates,
    )
