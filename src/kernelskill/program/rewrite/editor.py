"""A graph under rewriting: a mutable view with use counts, and a check that replacing keeps every promise."""

from __future__ import annotations

from kernelskill.records.graph import Arg, Graph, Node, NonFinite, Ref
from kernelskill.records.tensors import TensorSpec

RANDOM = frozenset(
    {"bernoulli", "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal",
     "native_dropout", "dropout", "multinomial", "exponential", "uniform", "rrelu_with_noise", "poisson",
     "normal_functional", "rrelu_with_noise_functional"}
)  # fmt: skip
CHECKS = frozenset({"_assert_async", "_functional_assert_async", "_assert_scalar"})
"""Checks of values at run time: they raise, so they are kept although nobody uses them."""
_CONSTANTS = frozenset({"full", "full_like", "scalar_tensor"})


def function(node: Node) -> str:
    """The operator without namespace and overload: "mul" for "aten.mul.Tensor", "" for a kernel call."""
    parts = node.op.split(".")
    return parts[1] if len(parts) >= 2 and parts[0] == "aten" else ""


def argument(node: Node, index: int, name: str, default: Arg = None) -> Arg:
    """An argument by position or by name."""
    return node.args[index] if index < len(node.args) else node.kwargs.get(name, default)


def substitute(value: Arg, names: dict[str, Ref]) -> Arg:
    """An argument with every use of output 0 of a node in `names` replaced."""
    if isinstance(value, Ref):
        return names[value.node] if value.output == 0 and value.node in names else value
    if isinstance(value, tuple):
        return tuple(substitute(item, names) for item in value)
    return value


class Editor:
    """Nodes in order, who uses them, and the values' layouts."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self.outside: dict[str, TensorSpec] = {value.name: value.spec for value in graph.inputs}
        self.outside |= {value.name: value.spec for value in graph.state}
        self.constants: dict[str, float] = {
            s.name: float(s.value)
            for s in graph.state
            if s.kind == "constant" and isinstance(s.value, (int, float)) and not isinstance(s.value, bool)
        }
        self.outputs: list[Arg] = list(graph.outputs)
        self.updates = dict(graph.updates)
        self.counts: dict[str, int] = {}
        self._takers: dict[str, dict[str, None]] = {}
        """Node -> nodes that use, or once used, a result of it, in order of the graph as it was."""
        for node in graph.nodes:
            self._count(node, 1)
        for ref in self.results():
            self.counts[ref.node] = self.counts.get(ref.node, 0) + 1

    def _count(self, node: Node, step: int) -> None:
        for ref in node.refs():
            self.counts[ref.node] = self.counts.get(ref.node, 0) + step
            self._takers.setdefault(ref.node, {})[node.name] = None

    def results(self) -> list[Ref]:
        """Values that leave the graph: outputs and new buffer values."""
        return [value for value in self.outputs if isinstance(value, Ref)] + list(self.updates.values())

    def uses(self, name: str) -> int:
        """How often a value is used, the graph's results included."""
        return self.counts.get(name, 0)

    def uses_of(self, name: str, output: int) -> int:
        """How often one result of a node is used."""
        takers = [self.nodes[taker] for taker in self._takers.get(name, ()) if taker in self.nodes]
        refs = [ref for node in takers for ref in node.refs()] + self.results()
        return refs.count(Ref(node=name, output=output))

    def producer(self, value: Arg) -> Node | None:
        """The node behind a value; None for inputs, state and second results."""
        return self.nodes.get(value.node) if isinstance(value, Ref) and value.output == 0 else None

    def spec(self, value: Arg) -> TensorSpec | None:
        """The layout of a value; None when it is not a tensor."""
        if not isinstance(value, Ref):
            return None
        if value.node in self.outside:
            return self.outside[value.node]
        return self.nodes[value.node].outputs[value.output]

    def number(self, value: Arg) -> float | None:
        """A number known now: a literal, a scalar constant, or a tensor filled with one value."""
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, NonFinite):
            return float(value.number)
        if isinstance(value, Ref) and value.node in self.constants:
            return self.constants[value.node]
        node = self.producer(value)
        if node is not None and function(node) in _CONSTANTS:
            filled = node.args[0] if function(node) == "scalar_tensor" else argument(node, 1, "fill_value")
            return self.number(filled) if not isinstance(filled, Ref) else None
        return None

    def may_replace(self, node: Node, value: Ref) -> bool:
        """Whether all uses of a node may read `value`: same layout, and no result comes to share storage.

        A result of forward must stay a tensor of its own: never an input, a parameter or another result.
        """
        if node.outputs[0] is None or self.spec(value) != node.outputs[0]:
            return False
        chains = [self.storage(ref) for ref in self.outputs if isinstance(ref, Ref)]
        if not any(node.name in chain for chain in chains):
            return True
        owner = self.storage(value)[-1]
        others = {chain[-1] for chain in chains if node.name not in chain}
        return owner not in self.outside and owner not in others

    def storage(self, value: Ref) -> list[str]:
        """A value and what it is a view of, down to the node or input that owns the memory."""
        chain = [value.node]
        node = self.nodes.get(value.node)
        while node is not None and function(node) in VIEWS and isinstance(node.args[0], Ref):
            chain.append(node.args[0].node)
            node = self.nodes.get(chain[-1])
        return chain

    def replace(self, node: Node, value: Ref) -> None:
        """Let all uses of output 0 of a node read `value`; the node itself goes when it is unused."""
        names = {node.name: value}
        for taker in list(self._takers.get(node.name, ())):
            other = self.nodes.get(taker)
            if other is not None and any(ref.node == node.name for ref in other.refs()):
                self.put(
                    other.model_copy(
                        update={
                            "args": substitute(other.args, names),
                            "kwargs": {key: substitute(item, names) for key, item in other.kwargs.items()},
                        }
                    )
                )
        moved = sum(ref == Ref(node=node.name) for ref in self.results())
        self.outputs = [substitute(item, names) for item in self.outputs]
        self.updates = {
            path: value if ref == Ref(node=node.name) else ref for path, ref in self.updates.items()
        }
        self.counts[node.name] = self.counts.get(node.name, 0) - moved
        self.counts[value.node] = self.counts.get(value.node, 0) + moved
        if node.name in self.nodes and self.uses(node.name) == 0:
            self.drop(node.name)

    def put(self, node: Node) -> None:
        """Put a new node in the place of the one with its name."""
        old = self.nodes[node.name]
        self._count(old, -1)
        self.nodes[node.name] = node
        self._count(node, 1)
        for name in {ref.node for ref in old.refs()}:
            if name in self.nodes and self.uses(name) == 0:
                self.drop(name)

    def drop(self, name: str) -> None:
        """Remove an unused node, and what only it used."""
        node = self.nodes.pop(name)
        self._count(node, -1)
        for other in {ref.node for ref in node.refs()}:
            if other in self.nodes and self.uses(other) == 0:
                self.drop(other)

    def finish(self) -> Graph:
        """The graph after rewriting."""
        return self.graph.model_copy(
            update={
                "nodes": tuple(self.nodes.values()),
                "outputs": tuple(self.outputs),
                "updates": self.updates,
            }
        )


VIEWS = frozenset(
    {"view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice",
     "select", "alias", "detach", "diagonal", "as_strided", "split", "split_with_sizes", "unbind", "view_as"}
)  # fmt: skip
"""Operators whose result may share memory with their first argument."""
