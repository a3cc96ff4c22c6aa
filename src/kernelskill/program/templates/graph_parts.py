"""Nodes put together in the place of others: the small graph around a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernelskill.errors import ProgramError
from kernelskill.program.fusion import taken_names
from kernelskill.program.identifiers import identifier
from kernelskill.program.program import Kernel, Program
from kernelskill.records import Arg, Graph, Node, Ref, TensorSpec

Places = Mapping[Ref, Ref]
"""Value -> the value that takes its place."""


class Parts:
    """New nodes, in order, and the kernels that they call.

    Args:
        program: in which they will stand.
        gone: nodes that they take the place of.
    """

    def __init__(self, program: Program, gone: set[str]) -> None:
        self.program = program
        self.gone = gone
        self.nodes: list[Node] = []
        self.kernels: list[Kernel] = []
        self._taken = taken_names(program, gone)
        self._specs: dict[Ref, TensorSpec] = {}

    def spec(self, ref: Ref) -> TensorSpec:
        """The layout of a value, of the graph or new."""
        return self._specs[ref] if ref in self._specs else self.program.graph.spec(ref)

    def name(self, title: str) -> str:
        """A name that nobody has."""
        return identifier(title, self._taken)

    def add(self, title: str, op: str, *args: Arg, spec: TensorSpec, **kwargs: Arg) -> Ref:
        """A node with one result."""
        node = Node(name=self.name(title), op=op, args=args, kwargs=kwargs, outputs=(spec,))
        self.nodes.append(node)
        ref = Ref(node=node.name)
        self._specs[ref] = spec
        return ref

    def call(self, kernel: Kernel, *args: Ref) -> list[Ref]:
        """A kernel's results."""
        node = Node(
            name=self.name(f"{kernel.name}_out"),
            op=f"kernel:{kernel.name}",
            args=args,
            outputs=kernel.outputs,
        )
        self.kernels.append(kernel)
        self.nodes.append(node)
        refs = [Ref(node=node.name, output=index) for index in range(len(kernel.outputs))]
        self._specs |= dict(zip(refs, kernel.outputs, strict=True))
        return refs

    def contiguous(self, ref: Ref) -> Ref:
        """The value, copied where it is not contiguous."""
        spec = self.spec(ref)
        if spec.is_contiguous:
            return ref
        whole = TensorSpec.contiguous(spec.shape, spec.dtype)
        return self.add("whole", "aten.clone.default", ref, spec=whole, memory_format="contiguous_format")

    def rows(self, ref: Ref) -> Ref:
        """A contiguous value as a matrix of its last axis."""
        ref = self.contiguous(ref)
        spec = self.spec(ref)
        shape = (math.prod(spec.shape[:-1]), spec.shape[-1])
        if spec.shape == shape:
            return ref
        return self.add(
            "rows", "aten.view.default", ref, shape, spec=TensorSpec.contiguous(shape, spec.dtype)
        )

    def product(self, title: str, x: Ref, weight: Ref, bias: Ref | None) -> Ref:
        """The product of x and the transpose of a weight (outputs, inputs), plus a bias."""
        given = self.spec(weight)
        (outputs, inputs), (down, across) = given.shape, given.stride
        turned = given.model_copy(update={"shape": (inputs, outputs), "stride": (across, down)})
        right = self.add("weight", "aten.permute.default", weight, (1, 0), spec=turned)
        spec = TensorSpec.contiguous((self.spec(x).shape[0], outputs))
        if bias is None:
            return self.add(title, "aten.mm.default", x, right, spec=spec)
        return self.add(title, "aten.addmm.default", bias, x, right, spec=spec)

    def select(self, title: str, ref: Ref, index: int) -> Ref:
        """One slice along the first axis."""
        spec = self.spec(ref)
        part = spec.model_copy(update={"shape": spec.shape[1:], "stride": spec.stride[1:]})
        return self.add(title, "aten.select.int", ref, 0, index, spec=part)

    def placed(self, moved: Places, skill: str) -> Program:
        """The program with these nodes where they are needed, and values of the old ones taken over.

        Args:
            moved: values of nodes that go -> values that take their place.
            skill: of the lineage.

        Raises:
            ProgramError: what they read is known only after what uses them.
        """
        graph = self.program.graph
        for before, after in moved.items():
            if graph.spec(before) != self.spec(after):
                raise ProgramError(f"{before.node} has another layout than what would take its place")

        def taken_over(arg: Arg) -> Arg:
            if isinstance(arg, Ref):
                return moved.get(arg, arg)
            return tuple(taken_over(item) for item in arg) if isinstance(arg, tuple) else arg

        kept = [
            node.model_copy(
                update={
                    "args": tuple(taken_over(arg) for arg in node.args),
                    "kwargs": {key: taken_over(arg) for key, arg in node.kwargs.items()},
                }
            )
            for node in graph.nodes
            if node.name not in self.gone
        ]
        changed = graph.model_copy(
            update={
                "nodes": tuple(_in_order(graph, [*kept, *self.nodes])),
                "outputs": tuple(taken_over(arg) for arg in graph.outputs),
                "updates": {path: moved.get(ref, ref) for path, ref in graph.updates.items()},
            }
        )
        kernels = (*self.program.kernels, *self.kernels)
        placed = self.program.model_copy(update={"graph": changed, "kernels": kernels})
        return placed if skill in placed.skills else placed.with_skill(skill)


def _in_order(graph: Graph, nodes: list[Node]) -> list[Node]:
    """Nodes behind what they use, otherwise in the order given."""
    known = {item.name for item in graph.inputs} | {item.name for item in graph.state}
    made = {node.name: node for node in nodes}
    ordered: dict[str, Node] = {}
    waiting: set[str] = set()
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, ready = stack.pop()
        if node.name in ordered:
            continue
        if ready:
            ordered[node.name] = node
            continue
        if node.name in waiting:
            raise ProgramError(f"{node.name} would need its own result")
        waiting.add(node.name)
        stack.append((node, True))
        needs = [ref.node for ref in node.refs() if ref.node not in known]
        stack += [(made[name], False) for name in reversed(needs) if name not in ordered]
    return list(ordered.values())
