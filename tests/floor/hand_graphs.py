"""Graphs built from a few words, and graphs that the reference worker captures."""

from typing import Any

from kernelskill.records import Graph, GraphInput, GraphState, Node, Ref, StateSpec, TensorSpec, Workload


def spec(*shape: int, dtype: str = "float32", stride: tuple[int, ...] | None = None) -> TensorSpec:
    plain = TensorSpec.contiguous(shape, dtype)
    return plain if stride is None else plain.model_copy(update={"stride": stride})


def value(name: str) -> Ref:
    """ "split.1" is the second result of the node "split"."""
    base, _, index = name.partition(".")
    return Ref(node=base, output=int(index or 0))


def node(name: str, op: str, *args: Any, out: TensorSpec | tuple[TensorSpec, ...], **kwargs: Any) -> Node:
    """Strings among the arguments are names of values."""

    def argument(item: Any) -> Any:
        if isinstance(item, (tuple, list)):
            return tuple(map(argument, item))
        return value(item) if isinstance(item, str) else item

    outputs = out if isinstance(out, tuple) else (out,)
    return Node(name=name, op=op, args=tuple(map(argument, args)), kwargs=kwargs, outputs=outputs)


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
        outputs=tuple(map(value, outputs)),
        outputs_tree={"tuple": [{"tensor": k} for k in range(len(outputs))]},
        updates={path: value(name) for path, name in (updates or {}).items()},
    )


def workload(captured: Graph, tied: dict[str, str] | None = None) -> Workload:
    state = tuple(
        StateSpec(path=s.path, spec=s.spec, kind="parameter", tied_to=(tied or {}).get(s.path, ""))
        for s in captured.state
    )
    return Workload(
        inputs=tuple(item.spec for item in captured.inputs),
        inputs_tree={"list": [{"tensor": k} for k in range(len(captured.inputs))]},
        outputs=tuple(captured.spec(ref) for ref in captured.outputs if isinstance(ref, Ref)),
        outputs_tree=captured.outputs_tree,
        state=state,
        eager_ms=1.0,
        graph=captured,
    )


def captured(model: Any, *args: Any) -> Graph:
    from kernelskill.evaluation.worker.capture import capture

    return Graph.model_validate(capture(model, args, {}))
