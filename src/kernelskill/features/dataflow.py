"""What the way of values through a graph offers: folds that commute with products, attention, recurrences, masks.

Each finder gives names of nodes, so that what was counted can be shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kernelskill.features.operator_facts import layouts
from kernelskill.records import Arg, Graph, Node, Ref, TensorSpec
from kernelskill.records.operators import family, function

MANY_STEPS = 8
"""Products with the same weights, one after the other, from which they are a recurrence."""
_LINEAR = frozenset({"add", "sub", "mul", "div", "neg"})
_FOLDS_NAMES = """sum mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d"""
_FOLDS = frozenset(_FOLDS_NAMES.split())
"""Folds that are linear: they commute with what is linear before them."""
_HEAVY = frozenset({"matmul", "conv"})
_POINTWISE = frozenset({"elementwise", "view", "copy"})
_COPIES = frozenset({"clone", "_to_copy", "contiguous"})
_MASKS = frozenset({"triu", "tril"})
_BATCH_NORMS = frozenset({"_native_batch_norm_legit_functional", "_batch_norm_with_update_functional"})


class Dataflow:
    """Finders over one graph without dead nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = {node.name: node for node in graph.nodes}
        self.specs = layouts(graph)
        kept = (*graph.outputs, *graph.updates.values())
        self.results = {item.node for item in kept if isinstance(item, Ref) and item.output == 0}
        """Nodes whose first result leaves the graph, which is a use too; the others are statistics and indices."""
        self.users: dict[str, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for name in dict.fromkeys(ref.node for ref in node.refs()):
                self.users[name].append(node)

    def commuting_folds(self) -> tuple[str, ...]:
        """Products and convolutions whose results are only summed or averaged, through linear steps."""
        return tuple(node.name for node in self._heavy() if self._meets_only_folds(node))

    def attentions(self) -> tuple[str, ...]:
        """Products whose result becomes the weights of a second product: by a softmax, or another row-wise function.

        Scores, weights and the second product must be whole matrices (`bmm`), as activations are, not parameters.
        """
        found = [node.name for node in self.graph.nodes if family(node.op) == "attention"]
        for node in self.graph.nodes:
            if function(node.op) in {"bmm", "baddbmm"} and self._is_weighted(node):
                found.append(node.name)
        return tuple(found)

    def recurrences(self) -> tuple[str, ...]:
        """Recurrent layers, and parameters that many products in a chain use."""
        layers = [node.name for node in self.graph.nodes if family(node.op) == "recurrent"]
        state = {item.name for item in self.graph.state if len(item.spec.shape) >= 2}
        uses: Counter[str] = Counter()
        for node in self.graph.nodes:
            if family(node.op) == "matmul":
                uses.update({root for ref in node.refs() if (root := self._root(ref.node)) in state})
        return (*layers, *(name for name, count in uses.items() if count >= MANY_STEPS))

    def masked_products(self) -> tuple[str, ...]:
        """Products of which a triangle is set to zero: by triu or tril, or by comparing row and column numbers."""
        return tuple(node.name for node in self._heavy() if any(map(self._masks, self._onward(node))))

    def batch_norms(self) -> tuple[str, ...]:
        """Normalisations over the batch with statistics of this very batch, as training has them."""
        return tuple(node.name for node in self.graph.nodes if function(node.op) in _BATCH_NORMS)

    def followed(self) -> tuple[str, ...]:
        """Products and convolutions whose result meets element-wise work, a fold or a norm before another product."""
        return tuple(node.name for node in self._heavy() if self._has_epilogue(node))

    def single_use_slices(self) -> tuple[str, ...]:
        """Slices of a computed value that nobody uses otherwise: the rest of it need not be computed."""
        return tuple(
            node.name
            for node in self.graph.nodes
            if function(node.op) in {"select", "slice", "narrow"}
            and isinstance(node.args[0], Ref)
            and node.args[0].node in self.nodes
            and len(self.users[node.args[0].node]) == 1
            and node.args[0].node not in self.results
            and family(self.nodes[node.args[0].node].op) not in {"view", "creation", "scan", "recurrent"}
        )

    def _heavy(self) -> Iterator[Node]:
        return (node for node in self.graph.nodes if family(node.op) in _HEAVY)

    def _meets_only_folds(self, node: Node) -> bool:
        """Whether every way onward leads through linear steps of one tensor to a linear fold."""
        waiting, seen, folds = [node], {node.name}, 0
        while waiting:
            name = waiting.pop().name
            users = self.users[name]
            if not users or (name in self.results):
                return False
            for user in users:
                if function(user.op) in _FOLDS and self._shrinks(user):
                    folds += 1
                elif family(user.op) == "view" or self._is_linear(user):
                    if user.name not in seen:
                        seen.add(user.name)
                        waiting.append(user)
                elif function(user.op) not in _BATCH_NORMS:
                    return False
                elif (
                    user.name not in seen
                ):  # scale and shift per channel: linear once its statistics are known
                    seen.add(user.name)
                    waiting.append(user)
        return folds > 0

    def _shrinks(self, node: Node) -> bool:
        first, out = node.args[0], node.outputs[0]
        return (
            isinstance(first, Ref)
            and first in self.specs
            and out is not None
            and self.specs[first].numel > out.numel
        )

    def _is_linear(self, node: Node) -> bool:
        """Whether it is linear in its large operand; a product or quotient must be by a number or a small tensor."""
        name = function(node.op)
        out = node.outputs[0] if node.outputs else None
        if name not in _LINEAR or out is None:
            return False
        whole = [
            ref
            for ref in dict.fromkeys(node.refs())
            if ref in self.specs and self.specs[ref].numel == out.numel
        ]
        return name in {"add", "sub", "neg"} or len(whole) <= 1

    def _is_weighted(self, node: Node) -> bool:
        out = node.outputs[0]
        waiting, seen = [node], {node.name}
        while waiting:
            for user in self.users[waiting.pop().name]:
                if user.name in seen:
                    continue
                seen.add(user.name)
                if function(user.op) == "bmm" and out is not None:
                    return self._derives(user.args[0], seen)
                if family(user.op) in _POINTWISE | {"softmax", "reduction"}:
                    waiting.append(user)
        return False

    def _derives(self, value: object, names: set[str]) -> bool:
        return isinstance(value, Ref) and value.node in names

    def _onward(self, node: Node) -> Iterator[Node]:
        waiting, seen = [node], {node.name}
        while waiting:
            for user in self.users[waiting.pop().name]:
                if user.name not in seen and family(user.op) in _POINTWISE:
                    seen.add(user.name)
                    waiting.append(user)
                    yield user

    def _masks(self, node: Node) -> bool:
        if function(node.op) in _MASKS:
            return True
        return (
            function(node.op) == "where"
            and isinstance(node.args[0], Ref)
            and self._is_triangle(node.args[0].node)
        )

    def _is_triangle(self, name: str) -> bool:
        """Whether a condition compares two ranges of integers."""
        waiting, ranges = [name], 0
        while waiting:
            node = self.nodes.get(waiting.pop())
            if node is None:
                return False
            if function(node.op) == "arange":
                ranges += 1
            waiting += [ref.node for ref in node.refs()]
        return ranges >= 2

    def _has_epilogue(self, node: Node) -> bool:
        waiting, seen = [node], {node.name}
        while waiting:
            for user in self.users[waiting.pop().name]:
                kind = family(user.op)
                if kind in {"elementwise", "reduction", "softmax", "norm", "pool"}:
                    return True
                if kind in {"view", "copy"} and user.name not in seen:
                    seen.add(user.name)
                    waiting.append(user)
        return False

    def layout_copies(self) -> tuple[str, ...]:
        """Copies whose operand and result have neighbours along different axes, so that one side is strided."""
        return tuple(
            node.name
            for node in self.graph.nodes
            if function(node.op) in _COPIES and self._turns(node.args[0], node.outputs[0])
        )

    def _turns(self, operand: Arg, result: TensorSpec | None) -> bool:
        source = self.specs.get(operand) if isinstance(operand, Ref) else None
        inner = [_inner_axis(spec) for spec in (source, result) if spec is not None]
        return len(inner) == 2 and None not in inner and inner[0] != inner[1]

    def _root(self, name: str) -> str:
        """The value that a chain of views begins at."""
        while name in self.nodes and family(self.nodes[name].op) in {"view", "copy"}:
            first = self.nodes[name].args[0]
            if not isinstance(first, Ref):
                break
            name = first.node
        return name


def _inner_axis(spec: TensorSpec) -> int | None:
    """The axis along which neighbours lie side by side; None where there is none."""
    axes = enumerate(zip(spec.shape, spec.stride, strict=True))
    return next((axis for axis, (size, step) in axes if size > 1 and step == 1), None)
