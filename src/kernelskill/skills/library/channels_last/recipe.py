"""Convolutions in channels-last layout: the library then needs no reordering of its own inside."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.records import Arg, Edit, Facts, Node, Ref, TensorSpec

SKILL = "channels-last"
CONVOLUTION = "aten.convolution.default"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit for all two-dimensional convolutions that are not in that layout yet."""
    names = [node.name for node in program.graph.nodes if _fits(program, node)]
    if not names:
        return []
    return [
        Edit(
            skill=SKILL,
            site=",".join(names),
            action="layout",
            summary=f"{len(names)} convolutions in channels-last",
        )
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Convert the inputs of the convolutions, and their results back.

    Raises:
        ProgramError: a node of the site is not such a convolution.
    """
    sites = set(edit.site.split(","))
    known = {node.name for node in program.graph.nodes if _fits(program, node)}
    if not sites <= known:
        raise ProgramError(f"not a convolution in the usual layout: {', '.join(sorted(sites - known))}")
    nodes: list[Node] = []
    back: dict[str, Ref] = {}
    for node in program.graph.nodes:
        node = _renamed(node, back)
        if node.name not in sites:
            nodes.append(node)
            continue
        source, spec = node.args[0], node.outputs[0]
        assert isinstance(source, Ref)
        assert spec is not None
        turned = _clone(
            f"{node.name}_nhwc", source, _channels_last(program.graph.spec(_original(source, back))), node
        )
        moved = node.model_copy(
            update={"args": (Ref(node=turned.name), *node.args[1:]), "outputs": (_channels_last(spec),)}
        )
        restored = _clone(
            f"{node.name}_nchw", Ref(node=node.name), TensorSpec.contiguous(spec.shape, spec.dtype), node
        )
        back[node.name] = Ref(node=restored.name)
        nodes += [turned, moved, restored]
    graph = program.graph
    outputs = tuple(_moved(arg, back) for arg in graph.outputs)
    updates = {path: back.get(ref.node, ref) for path, ref in graph.updates.items()}
    changed = graph.model_copy(update={"nodes": tuple(nodes), "outputs": outputs, "updates": updates})
    return program.model_copy(update={"graph": changed}).with_skill(SKILL)


def _fits(program: Program, node: Node) -> bool:
    if node.op != CONVOLUTION or not isinstance(node.args[0], Ref):
        return False
    spec = program.graph.spec(node.args[0])
    return len(spec.shape) == 4 and spec.is_contiguous and spec.shape[1] > 1


def _channels_last(spec: TensorSpec) -> TensorSpec:
    batch, channels, height, width = spec.shape
    del batch
    stride = (channels * height * width, 1, width * channels, channels)
    return spec.model_copy(update={"stride": stride})


def _clone(name: str, source: Ref, spec: TensorSpec, near: Node) -> Node:
    layout = "contiguous_format" if spec.is_contiguous else "channels_last"
    return Node(
        name=name,
        op="aten.clone.default",
        args=(source,),
        kwargs={"memory_format": layout},
        outputs=(spec,),
        origin=near.origin,
    )


def _original(ref: Ref, back: dict[str, Ref]) -> Ref:
    return next((Ref(node=name) for name, new in back.items() if new.node == ref.node), ref)


def _moved(arg: Arg, back: dict[str, Ref]) -> Arg:
    if isinstance(arg, Ref):
        return back.get(arg.node, arg)
    return tuple(_moved(item, back) for item in arg) if isinstance(arg, tuple) else arg


def _renamed(node: Node, back: dict[str, Ref]) -> Node:
    return node.model_copy(
        update={
            "args": tuple(_moved(arg, back) for arg in node.args),
            "kwargs": {key: _moved(arg, back) for key, arg in node.kwargs.items()},
        }
    )
