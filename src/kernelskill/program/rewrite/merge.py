"""A map kernel into the one kernel that reads its result, so that the result is never written."""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Axis, Op, Operand, Region, Stage
from kernelskill.records import Graph, Node, Ref


@dataclass(frozen=True)
class Pair:
    """Two kernels, one of which feeds only the other."""

    producer: str
    consumer: str


def mergeable(program: Program) -> list[Pair]:
    """Pairs that make one kernel, in order of the graph."""
    found = []
    for node in program.graph.nodes:
        consumer = _sole_user(program.graph, node)
        if consumer is None:
            continue
        pair = Pair(node.op.removeprefix("kernel:"), consumer.op.removeprefix("kernel:"))
        try:
            merge(program, pair)
        except ProgramError:
            continue
        found.append(pair)
    return found


def _sole_user(graph: Graph, node: Node) -> Node | None:
    if not node.op.startswith("kernel:") or len(node.outputs) != 1:
        return None
    ref = Ref(node=node.name)
    if ref in graph.outputs or ref in graph.updates.values():
        return None
    users = [other for other in graph.nodes if ref in other.refs()]
    return users[0] if len(users) == 1 and users[0].op.startswith("kernel:") else None


def merge(program: Program, pair: Pair, skill: str = "") -> Program:
    """The program with the pair as one kernel under the consumer's name.

    Raises:
        ProgramError: they do not make one kernel; the message says why.
    """
    graph = program.graph
    nodes = {node.op.removeprefix("kernel:"): node for node in graph.nodes if node.op.startswith("kernel:")}
    if pair.producer not in nodes or pair.consumer not in nodes:
        raise ProgramError(f"there are no kernels {pair.producer} and {pair.consumer}")
    first, second = nodes[pair.producer], nodes[pair.consumer]
    if _sole_user(graph, first) != second:
        raise ProgramError(f"{pair.producer} is read by others than {pair.consumer}")
    producer, consumer = program.kernel(pair.producer), program.kernel(pair.consumer)
    if producer.region is None or consumer.region is None or not producer.region.is_map:
        raise ProgramError("only a map goes into another loop nest")
    ref = Ref(node=first.name)
    places = [index for index, arg in enumerate(second.args) if arg == ref]
    region, order = _merged(producer.region, consumer.region, places)
    args = tuple((*first.args, *second.args)[index] for index in order)
    kernel = Kernel(
        name=consumer.name,
        body=region,
        schedule=consumer.schedule,
        outputs=consumer.outputs,
        skills=tuple(dict.fromkeys((*producer.skills, *consumer.skills, *([skill] if skill else [])))),
    )
    call = second.model_copy(update={"args": args})
    return program.model_copy(
        update={
            "graph": graph.model_copy(
                update={
                    "nodes": tuple(call if n.name == second.name else n for n in graph.nodes if n != first)
                }
            ),
            "kernels": tuple(
                kernel if k.name == kernel.name else k for k in program.kernels if k != producer
            ),
        }
    )


def _merged(producer: Region, consumer: Region, places: list[int]) -> tuple[Region, list[int]]:
    """One region, and for each of its inputs the place among the producer's and then the consumer's arguments."""
    taken = {op.name for stage in _stages(consumer) for op in stage.ops}
    taken |= {item.name for item in (*consumer.inputs, *consumer.outputs)}
    taken |= {item.name for stage in consumer.stages for item in stage.reductions}
    taken |= {f"{item.name}_max" for stage in consumer.stages for item in stage.reductions}
    written, stage = producer.outputs[0], producer.stages[0]
    if written.dtype not in {"float32", "bool"}:
        raise ProgramError("the value between the kernels is rounded when it is stored")
    for place in places:
        consumer = _split(consumer, consumer.inputs[place], written, producer.axes)
    inputs: list[Operand] = []
    order: list[int] = []
    inlined: dict[str, tuple[tuple[Op, ...], str]] = {}
    for place in places:
        read = consumer.inputs[place]
        _check_cost(producer, consumer, read)
        names = {item.name: _fresh(item.name, taken) for item in producer.inputs}
        names |= {op.name: _fresh(op.name, taken) for op in stage.ops}
        for index, item in enumerate(producer.inputs):
            strides, offset = _seen_from(item, written, producer.axes, read, consumer.axes)
            moved = {"name": names[item.name], "strides": strides, "offset": item.offset + offset}
            inputs.append(item.model_copy(update=moved))
            order.append(index)
        ops = tuple(
            Op(
                name=names[op.name],
                fn=op.fn,
                args=tuple(names.get(arg, arg) if isinstance(arg, str) else arg for arg in op.args),
            )
            for op in stage.ops
        )
        inlined[read.name] = (ops, names[stage.stores[0].value])
    for index, item in enumerate(consumer.inputs):
        if index not in places:
            inputs.append(item)
            order.append(len(producer.inputs) + index)
    stages = tuple(_inlined(item, inlined) for item in consumer.stages)
    return consumer.model_copy(update={"inputs": tuple(inputs), "stages": stages}), order


def _stages(region: Region) -> tuple[Stage, ...]:
    return (*region.stages, *([region.total_stage] if region.total_stage else []))


def _check_cost(producer: Region, consumer: Region, read: Operand) -> None:
    """Refuse to compute a value more often than it is read from the consumer's own space."""
    if any(op.fn == "index" for op in producer.stages[0].ops):
        raise ProgramError("a position means another axis in the consumer")
    repeats = any(not step and axis.size > 1 for axis, step in zip(consumer.axes, read.strides, strict=True))
    if repeats:
        raise ProgramError("a value that is read again and again is better stored")


def _split(consumer: Region, read: Operand, written: Operand, axes: tuple[Axis, ...]) -> Region:
    """The consumer with axes parted where they run over several axes of the producer."""
    edges = sorted({step for step, axis in zip(written.strides, axes, strict=True) if axis.size > 1 and step})
    place = 0
    while place < len(consumer.axes):
        size, step = consumer.axes[place].size, read.strides[place]
        inner = next((e // step for e in edges if step and e % step == 0 and 1 < e // step < size), 1)
        if inner == 1 or size % inner:
            place += 1
            continue
        if consumer.axes[place].role == "reduce" and _needs_one_axis(consumer):
            raise ProgramError("positions and one-pass softmaxes need their row in one piece")
        consumer = _parted(consumer, place, size // inner, inner)
        read = next(item for item in consumer.inputs if item.name == read.name)
        place += 1
    return consumer


def _needs_one_axis(region: Region) -> bool:
    folds = {item.fold for stage in region.stages for item in stage.reductions}
    positions = any(op.fn == "index" for stage in region.stages for op in stage.ops)
    return positions or bool(folds & {"softmax", "argmax", "argmin"})


def _parted(region: Region, place: int, outer: int, inner: int) -> Region:
    axis = region.axes[place]
    parts = tuple(axis.model_copy(update={"size": size}) for size in (outer, inner))

    def longer(item: Operand) -> Operand:
        step = item.strides[place]
        strides = (*item.strides[:place], step * inner, step, *item.strides[place + 1 :])
        return item.model_copy(update={"strides": strides})

    return region.model_copy(
        update={
            "axes": (*region.axes[:place], *parts, *region.axes[place + 1 :]),
            "inputs": tuple(longer(item) for item in region.inputs),
            "outputs": tuple(longer(item) for item in region.outputs),
        }
    )


def _seen_from(
    item: Operand, written: Operand, axes: tuple[Axis, ...], read: Operand, space: tuple[Axis, ...]
) -> tuple[tuple[int, ...], int]:
    """Strides of a producer's input along the consumer's axes.

    Each axis of the consumer must run along one axis of the producer, and together they must stay inside it.
    """
    reach = [0] * len(axes)
    strides = []
    for axis, step in zip(space, read.strides, strict=True):
        if axis.size == 1 or step == 0:
            strides.append(0)
            continue
        for index in sorted(range(len(axes)), key=lambda k: -written.strides[k]):
            along = written.strides[index]
            if (
                along
                and step % along == 0
                and reach[index] + (axis.size - 1) * (step // along) < axes[index].size
            ):
                reach[index] += (axis.size - 1) * (step // along)
                strides.append(item.strides[index] * (step // along))
                break
        else:
            raise ProgramError(f"{read.name} is read along axes that {written.name} is not written along")
    if read.offset:
        raise ProgramError(f"{read.name} is read from its middle")
    return tuple(strides), 0


def _inlined(stage: Stage, inlined: dict[str, tuple[tuple[Op, ...], str]]) -> Stage:
    """A stage that computes what it loaded."""
    ops: list[Op] = []
    renamed: dict[str, str] = {}
    for op in stage.ops:
        name = str(op.args[0]) if op.fn == "load" else ""
        if name in inlined:
            if stage.kind == "scalar":
                raise ProgramError("a value of the row is computed in another kernel")
            ops += [item for item in inlined[name][0] if item not in ops]
            renamed[op.name] = inlined[name][1]
            continue
        args = tuple(renamed.get(arg, arg) if isinstance(arg, str) else arg for arg in op.args)
        ops.append(op.model_copy(update={"args": args}))
    return stage.model_copy(
        update={
            "ops": tuple(ops),
            "reductions": tuple(
                item.model_copy(update={"value": renamed.get(item.value, item.value)})
                for item in stage.reductions
            ),
            "stores": tuple(
                item.model_copy(update={"value": renamed.get(item.value, item.value)})
                for item in stage.stores
            ),
        }
    )


def _fresh(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
