"""Convolutions on channels-last data: converted once at the head of a chain, back where the layout is seen.

Layouts of kernels come from the graph, so only operators whose result's strides are certain join a chain:
two-dimensional convolutions, and point-wise operators of tensors that are all of the same shape and layout.
"""

from __future__ import annotations

from kernelskill.program.lowering import is_pointwise
from kernelskill.program.rewrite.editor import substitute
from kernelskill.records import Arg, Graph, Node, Ref, TensorSpec

FEWEST_CHANNELS = 3
"""Below, a tensor is as good as channels-last already, and its strides say so ambiguously."""
_CONVOLUTION = "aten.convolution.default"


def convolutions(graph: Graph) -> tuple[str, ...]:
    """Names of the convolutions that are done channels-first and gain from the other layout."""
    specs = _specs(graph)
    return tuple(node.name for node in graph.nodes if _suits(node, specs))


def _suits(node: Node, specs: dict[str, TensorSpec]) -> bool:
    if node.op not in {_CONVOLUTION, "aten.conv2d.default"} or len(node.args) < 2:
        return False
    source, weight = node.args[:2]
    if not isinstance(source, Ref) or not isinstance(weight, Ref) or source.output or weight.output:
        return False
    read, filters, out = specs.get(source.node), specs.get(weight.node), node.outputs[0]
    if read is None or filters is None or out is None or len(read.shape) != 4 or len(filters.shape) != 4:
        return False
    if node.op == _CONVOLUTION and (node.args[6] is not False or node.args[8] != 1):
        return False  # transposed or grouped
    if out.dtype != "float32" or not read.is_contiguous or not out.is_contiguous:
        return False
    if filters.shape[1] != read.shape[1] or out.shape[2] * out.shape[3] == 1:
        return False
    return min(filters.shape[:2]) >= FEWEST_CHANNELS


def channels_last(graph: Graph) -> Graph:
    """The graph with its convolutions on channels-last data; the same graph where none gains."""
    wanted = set(convolutions(graph))
    if not wanted:
        return graph
    return _Converter(graph, wanted).graph()


def last_spec(spec: TensorSpec) -> TensorSpec:
    """The layout of a tensor (N, C, H, W) with channels innermost."""
    _, channels, height, width = spec.shape
    stride = (channels * height * width, 1, width * channels, channels)
    return spec.model_copy(update={"stride": stride})


class _Converter:
    def __init__(self, graph: Graph, wanted: set[str]) -> None:
        self.source = graph
        self.wanted = wanted
        self.specs = _specs(graph)
        self.taken = set(self.specs) | {node.name for node in graph.nodes}
        self.nodes: list[Node] = []
        self.last: dict[str, str] = {}
        """Value -> its channels-last twin."""
        self.first: dict[str, str] = {}
        """Value that exists channels-last only -> its channels-first twin, where somebody needed one."""
        self.only_last: set[str] = set()

    def graph(self) -> Graph:
        for node in self.source.nodes:
            if node.name in self.wanted:
                self._convolution(node)
            elif self._keeps_layout(node):
                self._follow(node)
            else:
                self.nodes.append(self._with_first(node))
        outputs = tuple(self._seen(arg) for arg in self.source.outputs)
        updates = {path: self._seen(ref) for path, ref in self.source.updates.items()}
        return self.source.model_copy(
            update={"nodes": tuple(self.nodes), "outputs": outputs, "updates": updates}
        )

    def _convolution(self, node: Node) -> None:
        source, weight = node.args[:2]
        assert isinstance(source, Ref)
        assert isinstance(weight, Ref)
        args = (self._as_last(source), self._as_last(weight), *(self._seen(arg) for arg in node.args[2:]))
        spec = node.outputs[0]
        assert spec is not None
        self.nodes.append(node.model_copy(update={"args": args, "outputs": (last_spec(spec),)}))
        self.only_last.add(node.name)

    def _keeps_layout(self, node: Node) -> bool:
        """Whether all its tensors are of one shape and exist channels-last."""
        refs = list(node.refs())
        spec = node.outputs[0] if len(node.outputs) == 1 else None
        if (
            not refs
            or spec is None
            or not is_pointwise(node)
            or len(spec.shape) != 4
            or "memory_format" in node.kwargs
        ):
            return False
        same = all(ref.output == 0 and self.specs[ref.node].shape == spec.shape for ref in refs)
        return same and all(ref.node in self.only_last for ref in refs)

    def _follow(self, node: Node) -> None:
        spec = node.outputs[0]
        assert spec is not None
        self.nodes.append(node.model_copy(update={"outputs": (last_spec(spec),)}))
        self.only_last.add(node.name)

    def _as_last(self, ref: Ref) -> Ref:
        if ref.node in self.only_last:
            return ref
        if ref.node not in self.last:
            self.last[ref.node] = self._clone(ref.node, "channels_last", last_spec(self.specs[ref.node]))
        return Ref(node=self.last[ref.node])

    def _seen(self, arg: Arg) -> Arg:
        """An argument for somebody who expects the reference's layout."""
        if isinstance(arg, tuple):
            return tuple(self._seen(item) for item in arg)
        if not isinstance(arg, Ref) or arg.node not in self.only_last:
            return arg
        if arg.node not in self.first:
            self.first[arg.node] = self._clone(arg.node, "contiguous_format", self.specs[arg.node])
        return Ref(node=self.first[arg.node])

    def _with_first(self, node: Node) -> Node:
        names = {ref.node: self._seen(ref) for ref in node.refs() if ref.node in self.only_last}
        changed = {name: ref for name, ref in names.items() if isinstance(ref, Ref)}
        args = tuple(substitute(arg, changed) for arg in node.args)
        kwargs = {key: substitute(arg, changed) for key, arg in node.kwargs.items()}
        return node.model_copy(update={"args": args, "kwargs": kwargs})

    def _clone(self, name: str, layout: str, spec: TensorSpec) -> str:
        title = f"{name}_{'last' if layout == 'channels_last' else 'first'}"
        while title in self.taken:
            title += "_"
        self.taken.add(title)
        self.nodes.append(
            Node(
                name=title, op="aten.clone.default", args=(Ref(node=name),), kwargs={"memory_format": layout},
                outputs=(spec,),
            )
        )  # fmt: skip
        return title


def _specs(graph: Graph) -> dict[str, TensorSpec]:
    """Layouts of inputs, state and first results."""
    specs = {value.name: value.spec for value in graph.inputs}
    specs |= {value.name: value.spec for value in graph.state}
    return specs | {node.name: node.outputs[0] for node in graph.nodes if node.outputs and node.outputs[0]}
