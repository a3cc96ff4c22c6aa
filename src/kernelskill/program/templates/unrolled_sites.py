"""A recurrence that a graph spells out becomes one kernel, and the inputs' products of all steps become one product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.lowering import RULES
from kernelskill.program.program import Program
from kernelskill.program.region import Op
from kernelskill.program.rewrite.dead import dead_nodes
from kernelskill.program.rewrite.editor import argument, function
from kernelskill.program.templates.graph_parts import Parts
from kernelskill.program.templates.recurrent import (
    SKILL,
    Cell,
    Given,
    Leaf,
    Recurrence,
    Stored,
    last,
    sequence,
)
from kernelskill.program.templates.unrolled import Place, Term, Unrolled, unrolled
from kernelskill.records import Arg, Graph, Node, NonFinite, Ref, TensorSpec


def recurrences(program: Program) -> list[Unrolled]:
    """All recurrences of a program of which only states, and the last cell, are seen outside."""
    return [found for found in unrolled(program.graph) if _seen(program.graph, found) is not None]


def fuse_unrolled(program: Program, name: str) -> Program:
    """The program with the recurrence whose first product has that name as one kernel.

    Raises:
        ProgramError: there is no such recurrence, or the kernel is not made for it.
    """
    for found in recurrences(program):
        if found.steps[0].product.name == name:
            return _Fusing(program, found).program()
    raise ProgramError(f"no recurrence starts at {name}")


def _seen(graph: Graph, found: Unrolled) -> set[Ref] | None:
    """Values of the steps that others use; None where one is neither a state nor the last cell."""
    inner = set().union(*(step.inner for step in found.steps))
    users = [node for node in graph.nodes if node.name not in inner]
    refs = [ref for node in users for ref in node.refs()] + list(graph.updates.values())
    refs += [value for value in graph.outputs if isinstance(value, Ref)]
    seen = {ref for ref in refs if ref.node in inner}
    known = {step.new_state for step in found.steps} | {found.steps[-1].new_cell}
    return seen if seen <= known else None


@dataclass(frozen=True)
class _Together:
    """States put together by the graph: the kernel writes them there."""

    node: Node
    also: frozenset[str]
    """Views of the states in between."""
    spec: TensorSpec
    time: int
    row: int


def _together(graph: Graph, found: Unrolled) -> Iterator[_Together]:
    """Every cat of exactly all states in order, perhaps with a new axis for the time."""
    states = [step.new_state for step in found.steps]
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        parts, spec = node.args[0] if node.args else None, node.outputs[0] if node.outputs else None
        if function(node) != "cat" or not isinstance(parts, tuple) or spec is None or not spec.is_contiguous:
            continue
        views = [nodes.get(part.node) if isinstance(part, Ref) else None for part in parts]
        views = [view if view is not None and function(view) == "unsqueeze" else None for view in views]
        sources = [view.args[0] if view else part for view, part in zip(views, parts, strict=True)]
        dim = argument(node, 1, "dim", 0)
        axes = {argument(view, 1, "dim") for view in views if view}
        if sources != states or not isinstance(dim, int) or (axes and axes != {dim}) or dim not in (0, 1):
            continue
        steps, batch, hidden = len(states), found.batch, found.hidden
        time, row = (batch * hidden, hidden) if dim == 0 else (hidden, steps * hidden)
        yield _Together(node, frozenset(view.name for view in views if view), spec, time, row)


class _Fusing:
    def __init__(self, program: Program, found: Unrolled) -> None:
        self.found = found
        graph = program.graph
        self.together = next(_together(graph, found), None)
        gone = set().union(*(step.inner for step in found.steps))
        gone |= {self.together.node.name, *self.together.also} if self.together else set()
        self.parts = Parts(program, gone)
        users = [node for node in graph.nodes if node.name not in gone]
        refs = [ref for node in users for ref in node.refs()] + list(graph.updates.values())
        self.used = {*refs, *(value for value in graph.outputs if isinstance(value, Ref))}

    def program(self) -> Program:
        found, parts = self.found, self.parts
        first, end = found.steps[0], found.steps[-1]
        given, reads = self._given()
        starts = [first.state, *([first.cell] if first.cell else [])]
        for start in starts:
            self._require_plain(start)
        stored = self._stored()
        recurrence = Recurrence(
            cell=_cell(found), steps=len(found.steps), batch=found.batch, hidden=found.hidden,
            given=tuple(given), starts=tuple(parts.spec(start).stride[0] for start in starts),
            stored=tuple(item for item, _ in stored), bias=found.bias is not None,
        )  # fmt: skip
        self._require_plain(found.weight)
        if not parts.spec(found.weight).is_contiguous:
            raise ProgramError(f"{found.weight.node} is not contiguous")
        words = f"{len(found.steps)} steps of a recurrence of {found.hidden} units"
        kernel = recurrence.kernel(parts.name("recurrent_steps"), words)
        bias = [found.bias] if found.bias else []
        results = parts.call(kernel, *reads, *starts, found.weight, *bias)
        moved = {before: after for (_, before), after in zip(stored, results, strict=True) if before}
        states = [step.new_state for step in found.steps]
        for (item, before), after in zip(stored, results, strict=True):
            if item.what == "sequence" and before is None:
                moved |= {
                    state: parts.select("state", after, index)
                    for index, state in enumerate(states)
                    if state in self.used and state != end.new_state
                }
        placed = parts.placed({key: value for key, value in moved.items() if key is not None}, SKILL)
        gone = set(dead_nodes(placed.graph)) - set(dead_nodes(parts.program.graph))
        nodes = tuple(node for node in placed.graph.nodes if node.name not in gone)
        return placed.model_copy(update={"graph": placed.graph.model_copy(update={"nodes": nodes})})

    def _stored(self) -> list[tuple[Stored, Ref | None]]:
        """Results of the kernel, and whose place each takes."""
        found, end = self.found, self.found.steps[-1]
        steps, shape = len(found.steps), (found.batch, found.hidden)
        stored: list[tuple[Stored, Ref | None]] = []
        before_last = {step.new_state for step in found.steps[:-1]}
        if self.together:
            cat = self.together
            stored.append((Stored("sequence", cat.spec, cat.time, cat.row), Ref(node=cat.node.name)))
        if before_last & self.used:
            if self.together:
                raise ProgramError("states are used both together and one by one")
            stored.append((sequence(steps, *shape), None))
        if end.new_state in self.used:
            stored.append((last("state", shape), end.new_state))
        if end.new_cell is not None and end.new_cell in self.used:
            stored.append((last("cell", shape), end.new_cell))
        if not stored:
            raise ProgramError("nobody uses this recurrence")
        return stored

    def _require_plain(self, ref: Ref) -> None:
        spec = self.parts.spec(ref)
        if spec.dtype != "float32" or not spec.shape or spec.stride[-1] != 1:
            raise ProgramError(f"{ref.node} is not a plain float32 tensor")

    # -- what inputs make of each step -------------------------------------------------------------

    def _given(self) -> tuple[list[Given], list[Ref]]:
        """The given tensors, and the values that hold them; in order of the pattern."""
        keys = list(dict.fromkeys(key for step in self.found.steps for key in step.given))
        given, reads = [], []
        for key in keys:
            values = [step.given[key] for step in self.found.steps]
            for value in values:
                self._require_plain(value)
            spec = self.parts.spec(values[0])
            of_rows = len(spec.shape) == 2 and spec.shape[0] == self.found.batch
            if len(set(values)) == 1 and (of_rows or spec.numel == spec.shape[-1]):
                given.append(Given("shared", time=0, row=spec.stride[0] if of_rows else 0))
                reads.append(values[0])
            elif of_rows:
                ref, time, row = self._per_step(values)
                given.append(Given("from_inputs", time, row))
                reads.append(ref)
            else:
                raise ProgramError(
                    f"{values[0].node} is spread over the rows of a step in a way that is not printed"
                )
        return given, reads

    def _per_step(self, values: list[Ref]) -> tuple[Ref, int, int]:
        """Values of all steps in one tensor, and the strides of time and row."""
        parts, (batch, columns) = self.parts, self.parts.spec(values[0]).shape
        nodes = {node.name: node for node in parts.program.graph.nodes}
        products = [nodes.get(value.node) for value in values]
        shared = _shared_product(products, nodes)
        if shared is None:
            spec = TensorSpec.contiguous((len(values) * batch, columns))
            return (
                parts.add("of_steps", "aten.cat.default", tuple(values), 0, spec=spec),
                batch * columns,
                columns,
            )
        weight, bias, lefts = shared
        base = _sliced(lefts, nodes, parts)
        if base is not None:
            ref, axis = base
            whole = parts.product("from_inputs", parts.rows(ref), weight, bias)
            steps = len(values)
            return (whole, columns, steps * columns) if axis == 1 else (whole, batch * columns, columns)
        width = parts.spec(lefts[0]).shape[1]
        spec = TensorSpec.contiguous((len(lefts) * batch, width))
        rows = parts.add("of_steps", "aten.cat.default", tuple(lefts), 0, spec=spec)
        return parts.product("from_inputs", rows, weight, bias), batch * columns, columns


def _shared_product(
    products: list[Node | None], nodes: dict[str, Node]
) -> tuple[Ref, Ref | None, list[Ref]] | None:
    """Weight, bias and left operands of products of one weight; None where they are none."""
    lefts: list[Ref] = []
    shared: set[tuple[Ref, Ref | None]] = set()
    for node in products:
        if node is None or node.kwargs or node.op not in {"aten.mm.default", "aten.addmm.default"}:
            return None
        bias, left, right = (None, *node.args) if node.op == "aten.mm.default" else node.args
        turned = nodes.get(right.node) if isinstance(right, Ref) else None
        if turned is None or function(turned) != "permute" or turned.args[1] != (1, 0):
            return None
        weight = turned.args[0]
        if not isinstance(weight, Ref) or not isinstance(left, Ref) or not isinstance(bias, Ref | None):
            return None
        shared.add((weight, bias))
        lefts.append(left)
    if len(shared) != 1:
        return None
    ((weight, bias),) = shared
    return weight, bias, lefts


def _sliced(lefts: list[Ref], nodes: dict[str, Node], parts: Parts) -> tuple[Ref, int] | None:
    """The tensor of which the operands are all slices in order along one axis, and that axis."""
    found: set[tuple[Ref, int]] = set()
    for index, left in enumerate(lefts):
        node = nodes.get(left.node)
        if node is None or node.op != "aten.select.int" or node.args[2] != index:
            return None
        source, axis = node.args[:2]
        if not isinstance(source, Ref) or not isinstance(axis, int) or axis not in (0, 1):
            return None
        found.add((source, axis))
    if len(found) != 1:
        return None
    ((source, axis),) = found
    spec = parts.spec(source)
    return (source, axis) if len(spec.shape) == 3 and spec.shape[axis] == len(lefts) else None


# -- the cell ----------------------------------------------------------------------------------------


def _cell(found: Unrolled) -> Cell:
    """The pattern as operations on registers."""
    printed = _Printed(found)
    state = printed.name(found.pattern)
    cell = printed.name(found.cell) if found.cell else ""
    return Cell(gates=found.gates, leaves=printed.leaves, ops=tuple(printed.ops), state=state, cell=cell)


class _Printed:
    def __init__(self, found: Unrolled) -> None:
        self.leaves: dict[str, Leaf] = {}
        self.ops: list[Op] = []
        self._keys = list(dict.fromkeys(key for step in found.steps for key in step.given))
        self._known: dict[tuple[str, Place], str] = {}

    def name(self, term: Term) -> str:
        """The name of a term, whose operations are added where they are new."""
        key = term.kind, term.place
        if key not in self._known:
            self._known[key] = self._operation(term) if term.kind == "op" else self._leaf(term)
        return self._known[key]

    def _leaf(self, term: Term) -> str:
        ref, chunk = term.place
        if term.kind == "given":
            operand = self._keys.index(ref)
            name, leaf = f"input_{operand}_{chunk}", Leaf("given", operand, chunk)
        elif term.kind == "product":
            name, leaf = f"product_{chunk}", Leaf("product", chunk=chunk)
        elif term.kind == "cell":
            name, leaf = "cell_before", Leaf("cell")
        else:
            name, leaf = "state_before", Leaf("state")
        self.leaves[name] = leaf
        return name

    def _operation(self, term: Term) -> str:
        assert term.node is not None
        names = iter([self.name(arg) for arg in term.args])

        def value(arg: Arg) -> object:
            if isinstance(arg, Ref):
                return next(names)
            return float(arg.number) if isinstance(arg, NonFinite) else arg

        args = [value(arg) for arg in term.node.args]
        kwargs = {key: value(arg) for key, arg in term.node.kwargs.items()}
        made = RULES[term.node.op](self._emit, *args, **kwargs)
        if not isinstance(made, str):
            raise ProgramError(f"{term.node.name} computes nothing of a step")
        return made

    def _emit(self, fn: str, *args: str | float) -> str:
        name = f"{fn}_{len(self.ops)}"
        spelled = tuple(arg if isinstance(arg, str) else _number(float(arg)) for arg in args)
        self.ops.append(Op(name=name, fn=fn, args=spelled))
        return name


def _number(value: float) -> float | str:
    return value if value - value == 0 else str(value)
