"""Element-wise work around a template's core: built from nodes as a region, printed as a lambda on registers.

The region keeps the axes that the template walks apart: those get the role `reduce` and are neither merged nor dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernelskill.errors import ProgramError
from kernelskill.program.assemble import Assembly
from kernelskill.program.fusion import place
from kernelskill.program.lowering import is_pointwise
from kernelskill.program.nests import Lines, Nest
from kernelskill.program.region import Axis, Operand, Region, Stage
from kernelskill.program.schedule import Schedule
from kernelskill.program.values import Builder, Space
from kernelskill.records import Graph, Ref, TensorSpec

LOCALS = frozenset(
    [
        "F",
        "D",
        "in",
        "out",
        "line",
        "folded",
        "scale",
        "carry",
        "running",
        "walk",
        "task",
        "plane",
        "depth",
        "high",
        "low",
        "team",
        "part",
    ]
)
"""Names that templates use in the functions they print."""


class _Apart(Assembly):
    """Assembles a map whose walked axes stay as they are."""

    def _merged(
        self, inputs: list[Operand], outputs: list[Operand]
    ) -> tuple[tuple[Axis, ...], list[Operand]]:
        space, operands = self.builder.space, [*inputs, *outputs]
        axes: list[Axis] = []
        columns: list[list[int]] = []
        for axis, size in enumerate(space.sizes):
            walked = axis in space.reduce
            column = [operand.strides[axis] for operand in operands]
            if not walked and size == 1:
                continue
            joins = bool(axes) and not walked and axes[-1].role == "parallel"
            if joins and all(a == b * size for a, b in zip(columns[-1], column, strict=True)):
                axes[-1], columns[-1] = Axis(size=axes[-1].size * size, role="parallel"), column
                continue
            axes.append(Axis(size=size, role="reduce" if walked else "parallel"))
            columns.append(column)
        moved = [
            operand.model_copy(update={"strides": tuple(column[place] for column in columns)})
            for place, operand in enumerate(operands)
        ]
        return tuple(axes), moved


def layouts(graph: Graph) -> dict[tuple[str, int], TensorSpec]:
    """Layout of every tensor of a graph."""
    specs = {(value.name, 0): value.spec for value in graph.inputs}
    specs |= {(value.name, 0): value.spec for value in graph.state}
    for node in graph.nodes:
        specs |= {(node.name, k): spec for k, spec in enumerate(node.outputs) if spec is not None}
    return specs


def pointwise_region(
    graph: Graph, names: set[str], result: Ref, walked: set[int], spec: TensorSpec, taken: set[str]
) -> tuple[Region, list[Ref]]:
    """Nodes that compute `result` element by element, as a map over its shape.

    Args:
        graph: where the nodes are.
        names: the nodes; none gives a plain read.
        result: the value to be computed.
        walked: dimensions of the result that the template walks.
        spec: layout in which the result is stored.
        taken: names of operands and locals so far; the new ones are added.

    Returns:
        The region and the values it reads, in order of its inputs.

    Raises:
        ProgramError: the nodes do not make one map over this shape.
    """
    builder = Builder(Space.of(spec.shape, walked), layouts(graph))
    for node in graph.nodes:
        if node.name in names:
            place(node, builder, names)
    value = builder.values.get((result.node, result.output))
    if value is None:
        value = builder.load(result, builder.aligned(builder.specs[result.node, result.output]))
    if value.is_mask != (spec.dtype == "bool"):
        value = builder.emit("to_mask" if spec.dtype == "bool" else "to_float", value)
    if builder.shape(value) != spec.shape:
        raise ProgramError(f"{result.node} does not run over the whole space")
    assembly = _Apart(builder, [(value, spec, "out")])
    assembly.taken |= taken | LOCALS
    region = assembly.region()
    taken |= assembly.taken
    return region, [item.operand for item in assembly.input_refs() if item.operand]


def producers(graph: Graph, value: Ref) -> list[str]:
    """Nodes that may move in front of a core that reads `value`, nearest first.

    Each is point-wise and used by nothing else; every beginning of the list is closed under its users.
    """
    by_name = {node.name: node for node in graph.nodes}
    inside: list[str] = []
    waiting = [value.node]
    while waiting:
        name = waiting.pop(0)
        node = by_name.get(name)
        if node is None or name in inside or not is_pointwise(node):
            continue
        users = [other.name for other in graph.nodes if any(ref.node == name for ref in other.refs())]
        nearest = name == value.node
        if _leaves(graph, name) or any(user not in inside for user in users if not nearest):
            continue
        if nearest and len(users) != 1:
            continue
        inside.append(name)
        waiting += [ref.node for ref in node.refs()]
    return inside


def consumers(graph: Graph, value: Ref) -> list[str]:
    """Nodes that may move behind a core that gives `value`: a chain, each the only user of the one before."""
    chain: list[str] = []
    at = value.node
    while not _leaves(graph, at):
        users = [node for node in graph.nodes if any(ref.node == at for ref in node.refs())]
        if len(users) != 1 or not is_pointwise(users[0]):
            break
        chain.append(users[0].name)
        at = users[0].name
    return chain


def _leaves(graph: Graph, name: str) -> bool:
    results = [*graph.outputs, *graph.updates.values()]
    return any(isinstance(value, Ref) and value.node == name for value in results)


class Pointwise(Nest):
    """Prints the body of a map as lambdas; `value` names the operand that is a register, not memory."""

    def __init__(self, region: Region, schedule: Schedule, out: Lines, lanes: int, value: str = "") -> None:
        super().__init__(region, schedule)
        self.out = out
        self.lanes = lanes
        self.value = value
        # What a prologue gives stays in registers: only an epilogue has outputs in memory.
        written = self.outputs if value else {}
        self.pointers = {name: name for name in (*self.inputs, *written) if name != value}

    def _start(self, names: Iterable[str]) -> dict[str, str]:
        return {name: name for name in names}

    @property
    def before(self) -> list[int]:
        """Axes outside the walked ones."""
        return list(range(self.walked[0]))

    @property
    def walked(self) -> list[int]:
        """Axes that the template walks."""
        return [index for index, axis in enumerate(self.region.axes) if axis.role == "reduce"]

    @property
    def after(self) -> list[int]:
        """Axes inside the walked ones."""
        return list(range(self.walked[-1] + 1, len(self.region.axes)))

    def move(self, axes: list[int], index: str, suffix: str) -> None:
        """Print pointers advanced along axes, for all that follows."""
        self.pointers = self._moved(self.pointers, axes, index, suffix)

    def reader(self, name: str, moves: list[tuple[int, str]], axis: int) -> None:
        """Print a lambda that gives a register of values along `axis`.

        Args:
            name: name of the lambda; it takes the indices of `moves`, then the place, then optionally a length.
            moves: (axis, parameter) pairs that advance the pointers in each call.
            axis: the axis that is a register's lanes.
        """
        self._open(name, moves, "long j", " -> F")
        stored = self.region.stages[-1].stores[0].value
        self._body(moves, axis)
        self.out.add(f"return {self._as_vector(stored)};")
        self.out.close(";")

    def writer(self, name: str, moves: list[tuple[int, str]], axis: int) -> None:
        """Print a lambda that finishes and stores a register of values along `axis`; it takes them after the place."""
        self._open(name, moves, "long j, F value", "")
        pointers = self._body(moves, axis)
        store = self.region.stages[-1].stores[0]
        operand = self.outputs[store.operand]
        self.out.add(self._store(operand, pointers[operand.name], store.value, operand.strides[axis]))
        self.out.close(";")

    def _open(self, name: str, moves: list[tuple[int, str]], last: str, result: str) -> None:
        parameters = ", ".join([*(f"long {index}" for _, index in moves), last, "auto... n"])
        self.out.open(f"auto {name} = [&]({parameters}){result}")

    def _body(self, moves: list[tuple[int, str]], axis: int) -> dict[str, str]:
        pointers, stage = self.pointers, self.region.stages[-1]
        for moved, index in moves:
            pointers = self._moved(pointers, [moved], index, f"_{index}")
        self._vector_ops(stage, pointers, axis)
        return pointers

    def _load(self, operand: Operand, pointer: str, step: int) -> str:
        return "value" if operand.name == self.value else super()._load(operand, pointer, step)

    def _vector_ops(self, stage: Stage, pointers: dict[str, str], axis: int) -> None:
        super()._vector_ops(stage, {**pointers, self.value: "value"}, axis)

    def operands(self) -> tuple[tuple[str, str], ...]:
        """(name, dtype) of what is read from memory."""
        return tuple((item.name, item.dtype) for item in self.region.inputs if item.name != self.value)
