"""Two maps over one space that read a tensor in common, as one kernel that reads it once."""

from __future__ import annotations

from collections.abc import Iterator

from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Op, Region, Stage
from kernelskill.records import Arg, Edit, Facts, Graph, Node, Ref

SKILL = "fuse-siblings"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per pair of neighbours that share an operand and do not depend on each other."""
    return [
        Edit(
            skill=SKILL,
            site=f"{first.op.removeprefix('kernel:')},{second.op.removeprefix('kernel:')}",
            action="join",
            summary=f"{first.name} and {second.name} read what they share once",
        )
        for first, second in _pairs(program)
    ]


def _pairs(program: Program) -> Iterator[tuple[Node, Node]]:
    maps = {
        kernel.name: kernel
        for kernel in program.kernels
        if kernel.region is not None and kernel.region.is_map
    }
    calls = [node for node in program.graph.nodes if node.op.removeprefix("kernel:") in maps]
    for index, first in enumerate(calls):
        for second in calls[index + 1 :]:
            left, right = maps[first.op.removeprefix("kernel:")], maps[second.op.removeprefix("kernel:")]
            if _fits(left, right, first, second, program.graph):
                yield first, second


def _fits(left: Kernel, right: Kernel, first: Node, second: Node, graph: Graph) -> bool:
    if left.region is None or right.region is None or left.region.axes != right.region.axes:
        return False
    if left.schedule != right.schedule or not set(first.refs()) & set(second.refs()):
        return False
    # The pair runs where the second one stood, so nobody in between may read the first one's results.
    between = graph.nodes[graph.nodes.index(first) + 1 : graph.nodes.index(second) + 1]
    return all(ref.node != first.name for node in between for ref in node.refs())


def apply(program: Program, edit: Edit) -> Program:
    """Put one kernel where two were.

    Raises:
        ProgramError: they are no such pair (any more).
    """
    pair = next(
        (
            (a, b)
            for a, b in _pairs(program)
            if f"{a.op.removeprefix('kernel:')},{b.op.removeprefix('kernel:')}" == edit.site
        ),
        None,
    )
    if pair is None:
        raise ProgramError(f"{edit.site} are not two maps that share an operand")
    first, second = pair
    left, right = (program.kernel(node.op.removeprefix("kernel:")) for node in pair)
    assert left.region is not None
    assert right.region is not None
    region, places = _joined(left.region, right.region, first, second)
    kernel = right.model_copy(
        update={
            "body": region,
            "outputs": (*left.outputs, *right.outputs),
            "skills": tuple(dict.fromkeys((*left.skills, *right.skills, SKILL))),
        }
    )
    kernel_function(kernel)
    args = (*first.args, *second.args)
    call = second.model_copy(
        update={"args": tuple(args[place] for place in places), "outputs": (*first.outputs, *second.outputs)}
    )
    kernels = tuple(kernel if item == right else item for item in program.kernels if item != left)
    graph = _replaced(program.graph, first, second, call)
    return program.model_copy(update={"graph": graph, "kernels": kernels}).with_skill(SKILL)


def _joined(left: Region, right: Region, first: Node, second: Node) -> tuple[Region, list[int]]:
    """One region, and for each of its inputs the place among both calls' arguments."""
    names = {item.name: f"{item.name}_b" for item in (*right.inputs, *right.outputs)}
    names |= {op.name: f"{op.name}_b" for stage in right.stages for op in stage.ops}
    inputs, places = list(left.inputs), list(range(len(left.inputs)))
    for index, operand in enumerate(right.inputs):
        twin = next(
            (
                known
                for place, known in enumerate(left.inputs)
                if first.args[place] == second.args[index]
                and known.model_copy(update={"name": operand.name}) == operand
            ),
            None,
        )
        if twin is not None:
            names[operand.name] = twin.name
        else:
            inputs.append(operand.model_copy(update={"name": names[operand.name]}))
            places.append(len(left.inputs) + index)
    (mine,), (other,) = left.stages, right.stages
    loaded = {op.args[0]: op.name for op in mine.ops if op.fn == "load"}
    shared = {op.name for op in other.ops if op.fn == "load" and names[str(op.args[0])] in loaded}
    names |= {op.name: loaded[names[str(op.args[0])]] for op in other.ops if op.name in shared}
    ops = tuple(
        Op(
            name=names[op.name],
            fn=op.fn,
            args=tuple(names.get(a, a) if isinstance(a, str) else a for a in op.args),
        )
        for op in other.ops
        if op.name not in shared
    )
    stores = tuple(
        store.model_copy(
            update={"operand": names[store.operand], "value": names.get(store.value, store.value)}
        )
        for store in other.stores
    )
    stage = Stage(kind="map", ops=(*mine.ops, *ops), stores=(*mine.stores, *stores))
    outputs = (*left.outputs, *(item.model_copy(update={"name": names[item.name]}) for item in right.outputs))
    return left.model_copy(update={"inputs": tuple(inputs), "outputs": outputs, "stages": (stage,)}), places


def _replaced(graph: Graph, first: Node, second: Node, call: Node) -> Graph:
    """The graph with both calls as one in the place of the second."""
    shift = len(first.outputs)

    def spell(value: Arg) -> Arg:
        if isinstance(value, tuple):
            return tuple(spell(item) for item in value)
        if not isinstance(value, Ref):
            return value
        if value.node == first.name:
            return Ref(node=call.name, output=value.output)
        return Ref(node=call.name, output=value.output + shift) if value.node == second.name else value

    nodes = []
    for item in graph.nodes:
        if item == second:
            nodes.append(call)
        elif item != first:
            changed = {
                "args": tuple(map(spell, item.args)),
                "kwargs": {k: spell(v) for k, v in item.kwargs.items()},
            }
            nodes.append(item.model_copy(update=changed))
    updates = {path: ref for path, value in graph.updates.items() if isinstance(ref := spell(value), Ref)}
    return graph.model_copy(
        update={"nodes": tuple(nodes), "outputs": tuple(map(spell, graph.outputs)), "updates": updates}
    )
