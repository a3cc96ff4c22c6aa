"""Bytes that must cross between a program and memory: inputs and state as far as they are read, results once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kernelskill.floor.masks import kept_share
from kernelskill.records import Arg, Graph, Node, Ref, StateSpec, TensorSpec
from kernelskill.records.operators import family, function

_FEW_OF_MANY = frozenset(
    {"index", "index_select", "embedding", "take", "take_along_dim", "masked_select", "triu", "tril", "nonzero",
     "scatter", "index_put", "select_scatter", "slice_scatter", "diagonal_scatter"}
)  # fmt: skip
"""Operators that may read as little as one element of their first operand, depending on values."""
_DISJOINT = frozenset({"split", "split_with_sizes", "unsafe_split", "unbind", "chunk"})


class Traffic(NamedTuple):
    """Distinct bytes."""

    read: int
    written: int

    @property
    def total(self) -> int:
        """Footprint in bytes."""
        return self.read + self.written


def distinct(spec: TensorSpec) -> int:
    """Elements of memory that a tensor occupies: an expanded axis counts once, gaps don't count."""
    if spec.numel == 0:
        return 0
    spread = math.prod(size for size, step in zip(spec.shape, spec.stride, strict=True) if step)
    return min(spread, spec.storage_elements)


def nbytes(spec: TensorSpec) -> int:
    """Bytes of memory that a tensor occupies."""
    return distinct(spec) * spec.itemsize


def layouts(graph: Graph) -> dict[Ref, TensorSpec]:
    """Layout of every tensor value of a graph."""
    specs = {Ref(node=value.name): value.spec for value in graph.inputs}
    specs |= {Ref(node=value.name): value.spec for value in graph.state}
    for node in graph.nodes:
        for index, spec in enumerate(node.outputs):
            if spec is not None:
                specs[Ref(node=node.name, output=index)] = spec
    return specs


def used_values(graph: Graph) -> frozenset[Ref]:
    """Values that a node, an output or a buffer update uses."""
    used = {ref for node in graph.nodes for ref in node.refs()}
    used |= {item for item in graph.outputs if isinstance(item, Ref)}
    return frozenset(used | set(graph.updates.values()))


def node_traffic(node: Node, specs: dict[Ref, TensorSpec], used: frozenset[Ref]) -> Traffic:
    """What one node reads, and writes of used results, if it runs alone; nothing for a view."""
    if family(node.op) in {"view", "check"}:
        return Traffic(0, 0)
    read = sum(nbytes(specs[ref]) for ref in dict.fromkeys(node.refs()) if ref in specs)
    results = (Ref(node=node.name, output=index) for index in range(len(node.outputs)))
    return Traffic(read, sum(nbytes(specs[ref]) for ref in results if ref in specs and ref in used))


class Demand:
    """How much of each value of a graph without dead nodes is needed at least, from its results backwards."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.specs = layouts(graph)
        self.nodes = {node.name: node for node in graph.nodes}
        self.users: dict[Ref, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for ref in dict.fromkeys(node.refs()):
                self.users[ref].append(node)
        self.results = {item for item in graph.outputs if isinstance(item, Ref)} | set(graph.updates.values())
        self.known: dict[Ref, int] = {}
        for node in reversed(graph.nodes):  # users first, so that no chain is deep
            for index in range(len(node.outputs)):
                if Ref(node=node.name, output=index) in self.specs:
                    self.elements(Ref(node=node.name, output=index))

    def traffic(self, state: Iterable[StateSpec] = ()) -> Traffic:
        """The least traffic; `state` tells which parameters are tied."""
        tied = {item.path: item.tied_to for item in state if item.tied_to}
        owners: dict[str, int] = defaultdict(int)
        for item in self.graph.state:
            owner = tied.get(item.path, item.path)
            owners[owner] = max(owners[owner], self.read(Ref(node=item.name)))
        inputs = sum(self.read(Ref(node=item.name)) for item in self.graph.inputs)
        return Traffic(inputs + sum(owners.values()), self.written())

    def read(self, ref: Ref) -> int:
        """Bytes of an input or of state that are read; one that is only handed through is not read."""
        used = [node for node in self.users[ref] if not self._is_handed_through(node)]
        return self.elements(ref) * self.specs[ref].itemsize if used else 0

    def elements(self, ref: Ref) -> int:
        """Elements of a value that are needed at least: the largest use, or the union of its slices."""
        if ref not in self.known:
            spec = self.specs[ref]
            whole = distinct(spec)
            uses = [self._use(node, ref) for node in self.users[ref]]
            least = max([*uses, self._slices(ref, spec)], default=0)
            self.known[ref] = whole if ref in self.results and ref.node in self.nodes else min(whole, least)
        return self.known[ref]

    def share(self, node: Node) -> float:
        """Share of a node's results that is needed at least: it need not compute the rest."""
        shares = [
            self.elements(ref) / distinct(self.specs[ref])
            for ref in (Ref(node=node.name, output=index) for index in range(len(node.outputs)))
            if ref in self.specs and distinct(self.specs[ref])
        ]
        return max(shares, default=0.0)

    def _is_handed_through(self, node: Node) -> bool:
        """Whether a node is a view that ends in results only."""
        if family(node.op) != "view":
            return False
        refs = [Ref(node=node.name, output=index) for index in range(len(node.outputs))]
        return all(self._is_handed_through(user) for ref in refs for user in self.users[ref])

    def written(self) -> int:
        """Bytes of outputs and new buffer values; an output that is an input or a view of one is not written."""
        owned: dict[Ref, int] = defaultdict(int)
        results = [item for item in self.graph.outputs if isinstance(item, Ref)]
        for ref in dict.fromkeys((*results, *self.graph.updates.values())):
            owner = self._owner(ref)
            if ref in self.specs and owner.node in self.nodes:
                owned[owner] += nbytes(self.specs[ref])
        return sum(min(size, nbytes(self.specs[owner])) for owner, size in owned.items())

    def _owner(self, ref: Ref) -> Ref:
        node = self.nodes.get(ref.node)
        while node is not None and family(node.op) == "view" and node.args and isinstance(node.args[0], Ref):
            ref = node.args[0]
            node = self.nodes.get(ref.node)
        return ref

    def _use(self, node: Node, ref: Ref) -> int:
        """Elements of a value that one node reads at least."""
        spec, kind, first = self.specs[ref], family(node.op), node.args[0] if node.args else None
        if kind == "view":
            parts = [
                self.elements(Ref(node=node.name, output=index))
                for index, out in enumerate(node.outputs)
                if out
            ]
            return sum(parts) if function(node.op) in _DISJOINT else max(parts, default=0)
        if kind in {"creation", "check"}:
            return 0
        if first == ref and function(node.op) in _FEW_OF_MANY:
            return 1
        share = kept_share(node, self.nodes) if ref in node.args[1:3] else None
        if share is not None and share < 1:
            return max(1, int(share * spec.numel)) if spec == node.outputs[0] else 1
        out = node.outputs[0] if node.outputs else None
        if out is not None and self.share(node) < 1:
            return min(distinct(spec), self.elements(Ref(node=node.name)))
        if first != ref or out is None:
            return distinct(spec)
        if function(node.op) == "gather":
            return out.numel // max(out.shape[_axis(node, 1, len(out.shape))], 1) if out.shape else 1
        if function(node.op).startswith("nll_loss"):
            return spec.numel // spec.shape[1 if len(spec.shape) > 1 else 0]
        if kind == "conv" or (kind == "pool" and "adaptive" not in node.op and "fractional" not in node.op):
            return self._windows(node, spec, out)
        return min(distinct(spec), out.numel) if kind == "copy" else distinct(spec)

    def _windows(self, node: Node, x: TensorSpec, out: TensorSpec) -> int:
        """Elements under at least one window, when windows are further apart than they are wide."""
        kernel: Sequence[int]
        if family(node.op) == "conv":
            weight = self.specs[node.args[1]] if isinstance(node.args[1], Ref) else None
            kernel = weight.shape[2:] if weight else ()
            if "transpose" in node.op or (len(node.args) > 6 and node.args[6]):
                return distinct(x)
        else:
            given = node.args[1] if len(node.args) > 1 else node.kwargs.get("kernel_size", 1)
            kernel = _integers(given)
        dims = len(out.shape) - (2 if family(node.op) == "conv" else len(out.shape) - len(kernel))
        if not kernel or len(kernel) not in {1, dims}:
            return 1
        kernel = tuple(kernel) * dims if len(kernel) == 1 else tuple(kernel)
        spatial = math.prod(
            min(size, count * taps)
            for size, count, taps in zip(x.shape[-dims:], out.shape[-dims:], kernel, strict=True)
        )
        return min(distinct(x), math.prod(x.shape[:-dims]) * spatial)

    def _slices(self, ref: Ref, spec: TensorSpec) -> int:
        """Elements in the union of the slices that are read whole, along the best axis."""
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for node in self.users[ref]:
            if function(node.op) not in {"slice", "select"} or not spec.shape or not node.outputs[0]:
                continue
            if self.elements(Ref(node=node.name)) < distinct(node.outputs[0]):
                continue
            axis = _axis(node, 1, len(spec.shape))
            span = _span(node, spec.shape[axis])
            if span:
                spans[axis].append(span)
        return max(
            (_covered(found) * (spec.numel // max(spec.shape[axis], 1)) for axis, found in spans.items()),
            default=0,
        )


def _span(node: Node, size: int) -> tuple[int, int] | None:
    """Begin and end along the axis; None for a slice with gaps or a bound that is not a number."""
    if function(node.op) == "select":
        index = node.args[2]
        return ((index % size, index % size + 1)) if isinstance(index, int) and size else None
    bounds = [node.args[k] if len(node.args) > k else default for k, default in ((2, 0), (3, size), (4, 1))]
    begin, end = (size if bound is None and k else bound or 0 for k, bound in enumerate(bounds[:2]))
    if bounds[2] != 1 or not isinstance(begin, int) or not isinstance(end, int):
        return None
    begin, end = (max(0, min(size, bound + size if bound < 0 else bound)) for bound in (begin, end))
    return (begin, end) if begin < end else None


def _covered(spans: list[tuple[int, int]]) -> int:
    """Length of a union of intervals."""
    length, reached = 0, 0
    for begin, end in sorted(spans):
        length += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return length


def _axis(node: Node, index: int, rank: int) -> int:
    value = node.args[index] if len(node.args) > index else node.kwargs.get("dim", 0)
    return value % max(rank, 1) if isinstance(value, int) else 0


def _integers(value: Arg) -> tuple[int, ...]:
    return tuple(item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, int))
