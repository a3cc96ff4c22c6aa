"""Recurrences that a graph spells out step by step: found by what their steps have in common.

A loop over time becomes one chain of nodes. What tells it from others: products of one weight whose left operand
depends on the product before. Between two products stands a map of single units, the cell. The second step is taken as
the pattern; each other step must be the same operations on its own product, its own share of the inputs, and the state
and cell of the step before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelskill.program.lowering import is_pointwise
from kernelskill.program.rewrite.editor import argument, function
from kernelskill.program.templates.pointwise import layouts
from kernelskill.records import Arg, Graph, Node, Ref, TensorSpec

FEWEST_STEPS = 3
"""The first step starts from outside and the last one ends there, so a pattern needs one between them."""
_PRODUCTS = {"aten.mm.default": 0, "aten.addmm.default": 1}
"""Product -> where its left operand stands."""
MOST_OPS = 200
"""Operations of a cell."""


class Place(NamedTuple):
    """`hidden` columns of a matrix of the graph."""

    ref: Ref
    chunk: int


class Term(NamedTuple):
    """A value of one step: an operation of other terms, or where the step starts from."""

    kind: str
    """"op", "product", "state", "cell" or "given"."""
    place: Place
    node: Node | None = None
    args: tuple[Term, ...] = ()
    """Of an operation: its tensors in order."""


@dataclass
class Step:
    """What one step of the graph is made of."""

    product: Node
    state: Ref
    """What it starts from."""
    given: dict[Ref, Ref] = field(default_factory=dict)
    """Value of the pattern's step -> that of this one."""
    cell: Ref | None = None
    inner: set[str] = field(default_factory=set)
    """Nodes that the kernel takes the place of."""
    new_state: Ref | None = None
    new_cell: Ref | None = None


class Unrolled(NamedTuple):
    """A recurrence in a graph."""

    weight: Ref
    bias: Ref | None
    pattern: Term
    cell: Term | None
    """The new cell within the pattern."""
    steps: tuple[Step, ...]
    hidden: int
    gates: int
    batch: int


def unrolled(graph: Graph) -> Iterator[Unrolled]:
    """All recurrences that a graph spells out, in order of their first product."""
    chains: dict[Ref, list[Node]] = {}
    nodes = {node.name: node for node in graph.nodes}
    state = {item.name for item in graph.state}
    for node in graph.nodes:
        if node.op in _PRODUCTS:
            weight = _weight(node, nodes)
            if weight is not None and weight.node in state:
                chains.setdefault(weight, []).append(node)
    for weight, products in chains.items():
        # A first step from zeros may have been simplified; it stays in the graph then.
        tails = [products[first:] for first in (0, 1) if len(products) - first >= FEWEST_STEPS]
        found = (_Chain(graph, weight, tail).recurrence() for tail in tails)
        recurrence = next((item for item in found if item is not None), None)
        if recurrence is not None:
            yield recurrence


def _weight(product: Node, nodes: dict[str, Node]) -> Ref | None:
    """The matrix whose transpose a product multiplies from the right."""
    right = product.args[_PRODUCTS[product.op] + 1]
    node = nodes.get(right.node) if isinstance(right, Ref) else None
    if node is None or node.op != "aten.permute.default" or node.args[1] != (1, 0):
        return None
    return node.args[0] if isinstance(node.args[0], Ref) else None


class _Chain:
    """Products of one weight, perhaps the steps of a recurrence."""

    def __init__(self, graph: Graph, weight: Ref, products: list[Node]) -> None:
        self.graph, self.weight, self.products = graph, weight, products
        self.nodes = {node.name: node for node in graph.nodes}
        self.specs = layouts(graph)
        columns, self.hidden = self.specs[weight.node, 0].shape
        self.gates = columns // self.hidden if self.hidden and columns % self.hidden == 0 else 0
        self.level = self._levels()
        self.ops = 0

    def recurrence(self) -> Unrolled | None:
        """The recurrence, if its steps are alike."""
        starts = [self._left(product) for product in self.products]
        biases = {node.args[0] if node.op == "aten.addmm.default" else None for node in self.products}
        if not self.gates or len(biases) > 1 or any(start is None for start in starts):
            return None
        (bias,) = biases
        if bias is not None and not self._is_bias(bias):
            return None
        steps = [
            Step(product, start)
            for product, start in zip(self.products, starts, strict=True)
            if start is not None
        ]
        levels = [self.level[step.state.node] for step in steps]
        if levels != list(range(-1, len(steps) - 1)):
            return None
        pattern = self._express(Place(steps[2].state, 0), 1, steps[1])
        if pattern is None or pattern.kind != "op":
            return None
        cells = _leaves(pattern, "cell")
        if len(cells) > 1 or not self._match_all(pattern, steps):
            return None
        cell = None
        if cells:
            new_cell = steps[1].new_cell
            cell = _find(pattern, new_cell) if new_cell else None
            if cell is None:
                return None
        return Unrolled(
            weight=self.weight, bias=bias if isinstance(bias, Ref) else None, pattern=pattern, cell=cell,
            steps=tuple(steps), hidden=self.hidden, gates=self.gates, batch=self._spec(steps[0].state).shape[0],
        )  # fmt: skip

    # -- what depends on what ----------------------------------------------------------------------

    def _levels(self) -> dict[str, int]:
        """Node -> the last of the products that it depends on; -1 for none."""
        place = {node.name: index for index, node in enumerate(self.products)}
        level = {item.name: -1 for item in self.graph.inputs} | {item.name: -1 for item in self.graph.state}
        for node in self.graph.nodes:
            before = max((level[ref.node] for ref in node.refs()), default=-1)
            level[node.name] = max(before, place.get(node.name, -1))
        return level

    def _spec(self, ref: Ref) -> TensorSpec:
        return self.specs[ref.node, ref.output]

    def _left(self, product: Node) -> Ref | None:
        left = product.args[_PRODUCTS[product.op]]
        if not isinstance(left, Ref):
            return None
        spec = self._spec(left)
        plain = spec.dtype == "float32" and len(spec.shape) == 2 and spec.shape[1] == self.hidden
        return left if plain and not product.kwargs else None

    def _is_bias(self, value: Arg) -> bool:
        """Whether a kernel can add a value to the columns of the products."""
        plain = TensorSpec.contiguous((self.gates * self.hidden,))
        return isinstance(value, Ref) and self._spec(value) == plain

    # -- the pattern -------------------------------------------------------------------------------

    def _express(self, place: Place, index: int, step: Step, cells: bool = True) -> Term | None:
        """A value of one step in terms of what the step starts from.

        A value that the step before made is the cell, unless it is made of that step's state alone.
        """
        place = self._origin(place)
        if place.ref == Ref(node=step.product.name):
            return Term("product", place)
        if place.ref == step.state:
            return Term("state", place)
        level = self.level[place.ref.node]
        if level == -1:
            return Term("given", place)
        node = self.nodes[place.ref.node]
        inner = None
        if level >= index - 1 and is_pointwise(node):
            inner = self._expressed(node, place, index, step, cells and level == index)
        if inner is not None:
            return inner
        return Term("cell", place) if cells and level == index - 1 and place.chunk == 0 else None

    def _expressed(self, node: Node, place: Place, index: int, step: Step, cells: bool) -> Term | None:
        self.ops += 1
        spec = node.outputs[0]
        if self.ops > MOST_OPS or spec is None or spec.dtype != "float32":
            return None
        if len(spec.shape) != 2 or spec.shape[0] != self._spec(step.state).shape[0]:
            return None
        args = []
        for ref in node.refs():
            part = self._part(ref, place.chunk)
            term = self._express(part, index, step, cells) if part else None
            if term is None:
                return None
            args.append(term)
        return Term("op", place, node, tuple(args))

    def _part(self, ref: Ref, chunk: int) -> Place | None:
        """The columns of an argument that some columns of the result are made of; None for another shape."""
        shape = self._spec(ref).shape
        if not shape or shape[-1] == 1 or shape[-1] % self.hidden:
            return None
        return Place(ref, chunk)

    def _origin(self, place: Place) -> Place:
        """Where columns come from, before the matrix was cut into gates."""
        while (node := self.nodes.get(place.ref.node)) is not None:
            name, source = function(node), node.args[0] if node.args else None
            if not isinstance(source, Ref) or len(self._spec(source).shape) != 2:
                break
            if name == "split_with_sizes" and argument(node, 2, "dim", 0) in (1, -1):
                sizes = node.args[1]
                if not isinstance(sizes, tuple) or any(size != self.hidden for size in sizes):
                    break
                place = Place(source, place.chunk + place.ref.output)
            elif name == "slice" and argument(node, 1, "dim", 0) in (1, -1):
                begin = argument(node, 2, "start", 0) or 0
                if not isinstance(begin, int) or begin < 0 or begin % self.hidden:
                    break
                if argument(node, 4, "step", 1) != 1 or self._spec(place.ref).shape[1] % self.hidden:
                    break
                place = Place(source, place.chunk + begin // self.hidden)
            else:
                break
        return place

    # -- the other steps ---------------------------------------------------------------------------

    def _match_all(self, pattern: Term, steps: list[Step]) -> bool:
        """Match each step with the pattern; the last one's end is looked for."""
        for index, step in enumerate(steps):
            if index + 1 < len(steps):
                ends = [steps[index + 1].state]
            else:
                ends = [
                    Ref(node=node.name)
                    for node in self.graph.nodes
                    if self.level[node.name] == index and pattern.node and node.op == pattern.node.op
                ]
            if not any(self._matched(pattern, end, index, step) for end in ends):
                return False
            if index and step.cell is not None:
                steps[index - 1].new_cell = step.cell
        return self._cells_agree(pattern, steps)

    def _matched(self, pattern: Term, end: Ref, index: int, step: Step) -> bool:
        step.given, step.cell, step.inner, step.new_state = {}, None, {step.product.name}, end
        return self._unify(pattern, Place(end, 0), index, step)

    def _unify(self, pattern: Term, place: Place, index: int, step: Step) -> bool:
        self._note(place, step)
        place = self._origin(place)
        if pattern.kind == "product":
            return place == Place(Ref(node=step.product.name), pattern.place.chunk)
        if pattern.kind == "state":
            return place == Place(step.state, pattern.place.chunk)
        if pattern.kind == "cell":
            same = step.cell in (None, place.ref) and place.chunk == 0
            step.cell = place.ref
            return same and self.level[place.ref.node] == index - 1
        if pattern.kind == "given":
            same = step.given.setdefault(pattern.place.ref, place.ref) == place.ref
            alike = self._spec(place.ref).shape == self._spec(pattern.place.ref).shape
            return same and alike and place.chunk == pattern.place.chunk and self.level[place.ref.node] == -1
        node = self.nodes.get(place.ref.node)
        if node is None or pattern.node is None or _shape_of(node) != _shape_of(pattern.node):
            return False
        step.inner.add(node.name)
        parts = [self._part(ref, place.chunk) for ref in node.refs()]
        return len(parts) == len(pattern.args) and all(
            part is not None and self._unify(term, part, index, step)
            for term, part in zip(pattern.args, parts, strict=True)
        )

    def _note(self, place: Place, step: Step) -> None:
        """Cuts of this step's own values go with it."""
        while self.level[place.ref.node] >= 0 and (source := self._origin_once(place)) != place:
            step.inner.add(place.ref.node)
            place = source

    def _origin_once(self, place: Place) -> Place:
        node = self.nodes.get(place.ref.node)
        cut = node is not None and function(node) in {"split_with_sizes", "slice"}
        if node is None or not cut or self._origin(place) == place or not isinstance(node.args[0], Ref):
            return place
        return Place(node.args[0], place.chunk)

    def _cells_agree(self, pattern: Term, steps: list[Step]) -> bool:
        """Whether each step hands on as its cell what stands at the same place of the pattern."""
        if steps[1].new_cell is None:
            return not _leaves(pattern, "cell")
        term = _find(pattern, steps[1].new_cell)
        if term is None:
            return False
        for index, step in enumerate(steps):
            assert step.new_state is not None
            made = self._at(pattern, term, step.new_state)
            if index + 1 < len(steps) and step.new_cell != made:
                return False
            step.new_cell = made
        return self._spec(steps[0].cell or steps[0].state).shape == self._spec(steps[0].state).shape

    def _at(self, pattern: Term, wanted: Term, ref: Ref) -> Ref | None:
        """The value of a step at the place where the pattern has a term."""
        if pattern == wanted:
            return self._origin(Place(ref, 0)).ref
        node = self.nodes.get(self._origin(Place(ref, 0)).ref.node)
        if pattern.kind != "op" or node is None:
            return None
        for term, inner in zip(pattern.args, node.refs(), strict=True):
            found = self._at(term, wanted, inner)
            if found is not None:
                return found
        return None


def _shape_of(node: Node) -> tuple[object, ...]:
    """A node without the values that it uses."""

    def blank(arg: Arg) -> object:
        if isinstance(arg, Ref):
            return "value"
        return tuple(blank(item) for item in arg) if isinstance(arg, tuple) else arg

    kwargs = tuple((key, blank(value)) for key, value in sorted(node.kwargs.items()))
    return node.op, blank(node.args), kwargs, tuple(spec and spec.shape for spec in node.outputs)


def _leaves(term: Term, kind: str) -> set[Place]:
    if term.kind == kind:
        return {term.place}
    return set().union(*(_leaves(arg, kind) for arg in term.args)) if term.args else set()


def _find(term: Term, ref: Ref) -> Term | None:
    """The term of a value."""
    if term.kind == "op" and term.place.ref == ref:
        return term
    return next((found for arg in term.args if (found := _find(arg, ref)) is not None), None)
