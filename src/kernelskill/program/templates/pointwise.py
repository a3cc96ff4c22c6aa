"""Element-wise work around a template's core: built from nodes as a region, printed as a lambda on registers.

The region keeps the axes that the template walks apart: those get the role `reduce` and are neither merged nor dropped.
"""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.assemble import Assembly
from kernelskill.program.fusion import place
from kernelskill.program.lowering import is_pointwise
from kernelskill.program.naming import operand_names
from kernelskill.program.nests import Lines, Nest, as_float
from kernelskill.program.region import Axis, Operand, Region, Stage
from kernelskill.program.schedule import Schedule
from kernelskill.program.values import Builder, Space
from kernelskill.records import Graph, Ref, TensorSpec

LOCALS = frozenset(
    ["F", "D", "I", "M", "read", "write", "line", "space", "folded", "scale", "scaled", "carry", "running", "task",
     "plane", "depth", "height", "high", "low", "part", "parts", "top", "front", "left", "tile", "column", "window",
     "element", "even", "h", "d", "s", "t", "c", "chunk", "before", "sums", "total", "d0", "d1", "h0", "h1", "across",
     "filled"]
)  # fmt: skip
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
    graph: Graph,
    names: set[str],
    result: Ref,
    walked: set[int],
    spec: TensorSpec,
    taken: set[str],
    name: str = "out",
    titles: dict[str, str] | None = None,
) -> tuple[Region, list[Ref]]:
    """Nodes that compute `result` element by element, as a map over its shape.

    Args:
        graph: where the nodes are.
        names: the nodes; none gives a plain read.
        result: the value to be computed.
        walked: dimensions of the result that the template walks.
        spec: layout in which the result is stored.
        taken: names of operands and locals so far; the new ones are added.
        name: of the result, where it is an operand.
        titles: what values from outside are called.

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
    assembly = _Apart(builder, [(value, spec, name)], operand_names(graph) | (titles or {}))
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
    """Prints a map around a template's core: in place where it only loads or stores, else as a lambda.

    Args:
        region: the map.
        schedule: of the kernel.
        out: where it is printed.
        lanes: floats in a register.
        value: the operand of an epilogue that is the core's result, a register; "" for a prologue.
    """

    def __init__(self, region: Region, schedule: Schedule, out: Lines, lanes: int, value: str = "") -> None:
        super().__init__(region, schedule)
        self.out = out
        self.lanes = lanes
        self.value = value
        self.stage = _fed(region, value)
        # What a prologue gives stays in registers: only an epilogue has outputs in memory.
        written = self.outputs if value else {}
        self.pointers = {name: name for name in (*self.inputs, *written) if name != value}
        self._moves: list[int] = []

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

    @property
    def is_plain(self) -> bool:
        """Whether it only loads a float, or only stores one."""
        if len(self.pointers) != 1:
            return False
        operand = self.inputs.get(next(iter(self.pointers))) or next(iter(self.outputs.values()))
        only = self.value if self.value else None
        ops = [op for op in self.stage.ops if op.fn != "load"]
        return not ops and operand.dtype != "bool" and (only is None or self.stage.stores[0].value == VALUE)

    def move(self, axes: list[int], index: str, suffix: str) -> None:
        """Print pointers advanced along axes, for all that follows."""
        self.pointers = self._moved(self.pointers, axes, index, suffix)

    def declare(self, name: str, moves: list[tuple[int, str]], axis: int) -> None:
        """Print the lambda, if one is needed.

        Args:
            name: name of the lambda; it takes the indices of `moves`, the place, in an epilogue the register, and a
                length where registers are not all full (`fill`).
            moves: (axis, parameter) pairs that advance the pointers in each call; axes of one step are left out.
            axis: the axis that is a register's lanes.
        """
        self.name, self.axis = name, axis
        self._moves = [moved for moved, _ in moves]
        if self.is_plain:
            return
        given = [f"long {index}" for moved, index in moves if self.region.axes[moved].size > 1]
        parameters = [*given, "long j", *(["F value"] if self.value else [])]
        self.out.open(
            f"auto {name} = [&]({', '.join(parameters)}{self.takes_n}){'' if self.value else ' -> F'}"
        )
        pointers = self.pointers
        for moved, index in moves:
            pointers = self._moved(pointers, [moved], index, f"_{index}")
        self._vector_ops(self.stage, pointers, axis)
        if self.value:
            self._stored(self.stage, pointers, axis)
        else:
            self.out.add(f"return {self._value(self.stage.stores[0].value)};")
        self.out.close(";")

    def call(self, indices: list[str], place: str, *rest: str) -> str:
        """The expression that reads, or that stores.

        Args:
            indices: along the axes of the lambda's moves.
            place: along the register's axis.
            rest: the register that is stored, and the number of elements where it is not full.
        """
        moved = [
            (axis, index)
            for axis, index in zip(self._moves, indices, strict=True)
            if self.region.axes[axis].size > 1
        ]
        if not self.is_plain:
            return f"{self.name}({', '.join([*(index for _, index in moved), place, *rest])})"
        (pointer,) = self.pointers.values()
        operand = next(iter((self.outputs if self.value else self.inputs).values()))
        for axis, index in moved:
            step = operand.strides[axis]
            if step and index != "0":
                pointer += f" + {index}" if step == 1 else f" + {_factor(index)} * {step}L"
        step = self._step(operand)
        if not self.value and step == 0:
            return f"F{{}} + {as_float(operand, f'{pointer}[0]')}"
        stride = "" if step == 1 else f", {step}L"
        if place != "0":
            pointer += f" + {place}" if step == 1 else f" + {_factor(place)} * {step}L"
        given = ", ".join(rest)
        if self.value:
            return f"{'store_strided' if stride else self._kind(operand)}({pointer}{stride}, {given})"
        return f"{'load_strided' if stride else 'load'}<F>({pointer}{stride}{f', {given}' if given else ''})"

    def _step(self, operand: Operand) -> int:
        """Elements between the lanes of a register; where there is only one, that is at hand."""
        return operand.strides[self.axis] if self.region.axes[self.axis].size > 1 else 1

    def _store(self, operand: Operand, pointer: str, value: str, step: int) -> str:
        return super()._store(operand, pointer, value, self._step(operand))

    def _kind(self, operand: Operand) -> str:
        return "stream" if self.schedule.nontemporal and operand.dtype == "float32" else "store"

    def operands(self) -> tuple[tuple[str, str], ...]:
        """(name, dtype) of what is read from memory."""
        return tuple((item.name, item.dtype) for item in self.region.inputs if item.name != self.value)


VALUE = "value"
"""The register that an epilogue takes."""


def _fed(region: Region, value: str) -> Stage:
    """The only stage of a map, with the operand `value` as a register of that name."""
    stage = region.stages[-1]
    given = {op.name for op in stage.ops if op.fn == "load" and op.args[0] == value}

    def named(item: str | float) -> str | float:
        return VALUE if item in given else item

    return stage.model_copy(
        update={
            "ops": tuple(
                op.model_copy(update={"args": tuple(named(item) for item in op.args)})
                for op in stage.ops
                if op.name not in given
            ),
            "stores": tuple(store.model_copy(update={"value": named(store.value)}) for store in stage.stores),
        }
    )


def _factor(index: str) -> str:
    return f"({index})" if " " in index else index
