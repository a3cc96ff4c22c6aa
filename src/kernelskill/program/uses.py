"""Who uses which value of a graph: counted once, for what asks about many sets of nodes of a large graph."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable

from kernelskill.records import Graph, GraphInput, GraphState, Node, Ref, TensorSpec

Value = tuple[str, int]
"""Name of a node (or input, or state) and number of its result."""


class Uses:
    """Nodes of a graph in order, and the values between them.

    Args:
        graph: it never changes.
    """

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self.position: dict[str, int] = {node.name: number for number, node in enumerate(graph.nodes)}
        self.feeds: dict[str, frozenset[str]] = {}
        """Node -> names of what it reads."""
        self._taken: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for node in graph.nodes:
            refs = list(node.refs())
            self.feeds[node.name] = frozenset(ref.node for ref in refs)
            for ref in refs:
                self._taken[ref.node].append((node.name, ref.output))
        self._leaving: defaultdict[str, set[int]] = defaultdict(set)
        for value in (*graph.outputs, *graph.updates.values()):
            if isinstance(value, Ref):
                self._leaving[value.node].add(value.output)
        outside: tuple[GraphInput | GraphState, ...] = (*graph.inputs, *graph.state)
        self.specs: dict[Value, TensorSpec] = {(value.name, 0): value.spec for value in outside}
        for node in graph.nodes:
            for output, spec in enumerate(node.outputs):
                if spec is not None:
                    self.specs[node.name, output] = spec

    def sorted(self, names: Iterable[str]) -> list[Node]:
        """These nodes, in order of the graph; names of other values are passed over."""
        known = [name for name in names if name in self.position]
        return [self.nodes[name] for name in sorted(known, key=self.position.__getitem__)]

    def takers(self, name: str) -> list[str]:
        """Nodes that use any result of a node, in order, each once."""
        return list(dict.fromkeys(user for user, _ in self._taken.get(name, ())))

    def results(self, names: set[str]) -> list[Ref]:
        """Values of these nodes that somebody else uses, in order."""
        found: list[Ref] = []
        for node in self.sorted(names):
            used = {output for user, output in self._taken.get(node.name, ()) if user not in names}
            used |= self._leaving.get(node.name, set())
            found += [Ref(node=node.name, output=output) for output in sorted(used)]
        return found

    def comes_back(self, names: set[str]) -> bool:
        """Whether a path leaves these nodes and comes back to them."""
        last = max((self.position[name] for name in names if name in self.position), default=-1)
        waiting, seen = list(names), set(names)
        while waiting:
            name = waiting.pop()
            for user in self.takers(name):
                if user in names:
                    if name not in names:
                        return True
                elif user not in seen and self.position[user] < last:
                    seen.add(user)
                    waiting.append(user)
        return False


_known: dict[int, tuple[weakref.ref[Graph], Uses]] = {}


def uses(graph: Graph) -> Uses:
    """What is known of a graph, found out at the first question; kept as long as the graph lives."""
    number = id(graph)
    known = _known.get(number)
    if known is not None and known[0]() is graph:
        return known[1]
    found = Uses(graph)
    _known[number] = weakref.ref(graph, lambda _: _known.pop(number, None)), found
    return found
