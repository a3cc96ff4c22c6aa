"""Softmax and normalisation in decomposed form: reductions whose result goes back over the row that they reduced."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from kernelskill.records import Graph, Node, Ref, TensorSpec
from kernelskill.records.operators import family, function

_STATISTICS = frozenset(
    {
        "sum",
        "mean",
        "amax",
        "amin",
        "max",
        "min",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "norm",
        "linalg_vector_norm",
    }
)
"""Folds that a row is normalised by; a test (any) that masks its row is none."""
_TOPS = frozenset({"amax", "max"})


class Patterns(NamedTuple):
    """What was recognised."""

    softmax: int
    norm: int
    members: frozenset[str]
    """Reductions that are part of a pattern."""


def find_patterns(graph: Graph) -> Patterns:
    """Decomposed softmaxes and normalisations of a graph; whole operators (native_layer_norm) are not counted here."""
    finder = _Finder(graph)
    softmaxes = finder.softmaxes()
    inside = {name for pair in softmaxes for name in pair}
    if softmaxes:
        inside |= finder.shifts()
    norms = finder.norms(inside)
    members = inside | {name for group in norms for name in group}
    return Patterns(len(softmaxes), len(norms), frozenset(members))


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.nodes = {node.name: node for node in graph.nodes}
        self.specs: dict[Ref, TensorSpec] = {Ref(node=item.name): item.spec for item in graph.inputs}
        self.specs |= {Ref(node=item.name): item.spec for item in graph.state}
        self.users: dict[str, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for index, spec in enumerate(node.outputs):
                if spec is not None:
                    self.specs[Ref(node=node.name, output=index)] = spec
            for name in dict.fromkeys(ref.node for ref in node.refs()):
                self.users[name].append(node)
        self.reductions = [
            node for node in graph.nodes if family(node.op) == "reduction" and self._folds(node)
        ]

    def softmaxes(self) -> list[tuple[str, ...]]:
        """Per pattern: the sum of exponentials, and the maximum that was taken off before if there was one."""
        found = []
        for node in self.reductions:
            exponential = self._producer(node)
            if function(node.op) != "sum" or exponential is None or function(exponential.op) != "exp":
                continue
            tops = [
                item.name
                for item in self.reductions
                if function(item.op) in _TOPS and exponential.name in self._onward(item)
            ]
            if tops or self._meets(node):
                found.append((node.name, *tops))
        return found

    def shifts(self) -> set[str]:
        """Maxima that are taken off before an exponential; written twice, one of them reaches no sum."""
        return {
            node.name
            for node in self.reductions
            if function(node.op) in _TOPS
            and any(function(user.op) == "exp" for name in self._meets(node) for user in self.users[name])
        }

    def norms(self, taken: set[str]) -> list[set[str]]:
        """Groups of reductions that normalise the same row together (a mean and the variance about it)."""
        groups: list[tuple[set[str], set[str]]] = []
        for node in self.reductions:
            meets = self._meets(node)
            if node.name in taken or not meets or function(node.op) not in _STATISTICS:
                continue
            sources = self._sources(node)
            joined = [group for group in groups if group[1] & sources]
            names = {node.name}.union(*(group[0] for group in joined))
            marks = (meets | sources).union(*(group[1] for group in joined))
            groups = [group for group in groups if group not in joined] + [(names, marks)]
        return [names for names, _ in groups]

    def _folds(self, node: Node) -> bool:
        out = node.outputs[0] if node.outputs else None
        return out is not None and self._length(node) > out.numel

    def _length(self, node: Node) -> int:
        first = node.args[0] if node.args else None
        return self.specs[first].numel if isinstance(first, Ref) and first in self.specs else 0

    def _producer(self, node: Node) -> Node | None:
        """The node that computes what a reduction folds, views apart."""
        first = node.args[0] if node.args else None
        while isinstance(first, Ref) and first.node in self.nodes:
            producer = self.nodes[first.node]
            if family(producer.op) != "view":
                return producer
            first = producer.args[0]
        return None

    def _onward(self, reduction: Node) -> set[str]:
        """Elementwise nodes of the row's size that the result reaches, through small steps and views."""
        whole, reached, seen = self._length(reduction), set[str](), {reduction.name}
        waiting = [reduction]
        while waiting:
            for user in self.users[waiting.pop().name]:
                out = user.outputs[0] if user.outputs else None
                kind = family(user.op)
                if user.name in seen or out is None or kind not in {"view", "elementwise", "copy"}:
                    continue
                seen.add(user.name)
                if kind == "elementwise" and out.numel == whole:
                    reached.add(user.name)
                waiting.append(user)
        return reached

    def _meets(self, reduction: Node) -> set[str]:
        """Elementwise nodes where the result first meets a whole row again."""
        whole = self._length(reduction)
        meets, seen, waiting = set[str](), {reduction.name}, [reduction]
        while waiting:
            for user in self.users[waiting.pop().name]:
                out = user.outputs[0] if user.outputs else None
                kind = family(user.op)
                if user.name in seen or out is None or kind not in {"view", "elementwise", "copy"}:
                    continue
                seen.add(user.name)
                if kind == "elementwise" and out.numel == whole:
                    meets.add(user.name)
                else:
                    waiting.append(user)
        return meets

    def _sources(self, reduction: Node) -> set[str]:
        """The values that a reduction's row is computed from, element by element, up to where the row begins."""
        whole, found = self._length(reduction), set[str]()
        waiting = [ref for ref in reduction.refs() if ref in self.specs]
        while waiting:
            ref = waiting.pop()
            if ref.node in found or self.specs[ref].numel != whole:
                continue
            found.add(ref.node)
            node = self.nodes.get(ref.node)
            if node is not None and family(node.op) in {"view", "elementwise"}:
                waiting += [item for item in node.refs() if item in self.specs]
        return found
