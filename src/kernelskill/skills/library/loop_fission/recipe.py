"""A map with several results as two kernels, each with the operations and operands that its results need."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Region, Stage
from kernelskill.records import Arg, Edit, Facts, Graph, Node, Ref

SKILL = "loop-fission"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per map with several results; its space says after which result it is cut."""
    edits = []
    for kernel in program.kernels:
        count = len(kernel.outputs)
        if kernel.region is None or not kernel.region.is_map or count < 2:
            continue
        middle = count // 2
        cuts = tuple(sorted(range(1, count), key=lambda cut: abs(cut - middle)))
        edits.append(
            Edit(
                skill=SKILL,
                site=kernel.name,
                action="split",
                parameters={"after": cuts[0]},
                space={"after": cuts},
                summary=f"{kernel.name}: {count} results by two kernels, after 1 -> {cuts[0]}",
            )
        )
    return edits


def apply(program: Program, edit: Edit) -> Program:
    """Put two kernels where one was.

    Raises:
        ProgramError: there is no such kernel, or it cannot be cut there.
    """
    kernel = next((item for item in program.kernels if item.name == edit.site), None)
    node = next((item for item in program.graph.nodes if item.op == f"kernel:{edit.site}"), None)
    after = edit.parameters.get("after")
    if kernel is None or node is None or kernel.region is None or not kernel.region.is_map:
        raise ProgramError(f"{edit.site} is no map of this program")
    if not isinstance(after, int) or not 0 < after < len(kernel.outputs):
        raise ProgramError(f"{edit.site}: cannot be cut after result {after} of {len(kernel.outputs)}")
    halves = [
        _part(kernel, kernel.region, node, range(after), "first"),
        _part(kernel, kernel.region, node, range(after, len(kernel.outputs)), "second"),
    ]
    for part, _ in halves:
        kernel_function(part)
    moved = {index: Ref(node=halves[index >= after][1].name, output=index - after * (index >= after))
             for index in range(len(kernel.outputs))}  # fmt: skip
    kernels = [
        part for item in program.kernels for part in ([h[0] for h in halves] if item == kernel else [item])
    ]
    graph = _replaced(program.graph, node, [call for _, call in halves], moved)
    return program.model_copy(update={"graph": graph, "kernels": tuple(kernels)}).with_skill(SKILL)


def _part(kernel: Kernel, region: Region, node: Node, results: range, title: str) -> tuple[Kernel, Node]:
    """The kernel of some results, and its call."""
    (stage,) = region.stages
    outputs = [region.outputs[index] for index in results]
    names = {item.name for item in outputs}
    stores = tuple(store for store in stage.stores if store.operand in names)
    needed = {store.value for store in stores}
    kept = []
    for op in reversed(stage.ops):
        if op.name in needed:
            needed |= {arg for arg in op.args if isinstance(arg, str)}
            kept.append(op)
    inputs = [index for index, item in enumerate(region.inputs) if item.name in needed]
    if not inputs:
        raise ProgramError(f"{kernel.name}: results {list(results)} read nothing")
    body = region.model_copy(
        update={
            "inputs": tuple(region.inputs[index] for index in inputs),
            "outputs": tuple(outputs),
            "stages": (Stage(kind="map", ops=tuple(reversed(kept)), stores=stores),),
        }
    )
    name = f"{kernel.name}_{title}"
    part = kernel.model_copy(
        update={
            "name": name,
            "body": body,
            "outputs": tuple(kernel.outputs[index] for index in results),
            "skills": (*kernel.skills, SKILL),
        }
    )
    call = node.model_copy(
        update={
            "name": f"{node.name}_{title}",
            "op": f"kernel:{name}",
            "args": tuple(node.args[index] for index in inputs),
            "outputs": tuple(node.outputs[index] for index in results),
        }
    )
    return part, call


def _replaced(graph: Graph, node: Node, calls: list[Node], moved: dict[int, Ref]) -> Graph:
    """The graph with a call as two, every use of its results pointing at their new place."""

    def spell(value: Arg) -> Arg:
        if isinstance(value, Ref):
            return moved[value.output] if value.node == node.name else value
        return tuple(spell(item) for item in value) if isinstance(value, tuple) else value

    nodes: list[Node] = []
    for item in graph.nodes:
        if item == node:
            nodes += calls
            continue
        changed = {
            "args": tuple(map(spell, item.args)),
            "kwargs": {k: spell(v) for k, v in item.kwargs.items()},
        }
        nodes.append(item.model_copy(update=changed))
    updates = {
        path: moved[ref.output] if ref.node == node.name else ref for path, ref in graph.updates.items()
    }
    return graph.model_copy(
        update={"nodes": tuple(nodes), "outputs": tuple(map(spell, graph.outputs)), "updates": updates}
    )
