"""Kernels that are the same but for names: printed once, called from several places.

Steps of a loop, blocks of a network and heads of a model give kernels that differ in nothing but the names of what they
read. Two are equal if their loop nests, templates, schedules and results are, once operands and values are numbered in
order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kernelskill.program.arguments import folded
from kernelskill.program.program import Kernel
from kernelskill.program.region import Op, Reduction, Region, Stage, Store
from kernelskill.program.scalar import NON_FINITE

WIDTH = 100


def printed_as(kernels: Sequence[Kernel]) -> dict[str, str]:
    """Kernel -> the first kernel that is equal to it, which is the one that is printed."""
    first: dict[str, str] = {}
    return {kernel.name: first.setdefault(_meaning(kernel), kernel.name) for kernel in kernels}


def other_names(kernels: Sequence[Kernel]) -> str:
    """Python statements that give printed functions their further names; "" where no two kernels are equal."""
    names: dict[str, list[str]] = {}
    for name, printed in printed_as(kernels).items():
        if name != printed:
            names.setdefault(printed, []).append(name)
    lines = [line for printed, others in names.items() for line in _assigned(others, printed)]
    return (
        "\n".join(["# Equal kernels are one function, under the name of each place.", *lines])
        if lines
        else ""
    )


def _assigned(names: list[str], printed: str) -> list[str]:
    lines: list[list[str]] = [[]]
    for name in names:
        if lines[-1] and len(" = ".join([*lines[-1], name, printed])) > WIDTH:
            lines.append([])
        lines[-1].append(name)
    return [line for group in lines for line in folded(" = ".join([*group, printed]))]


def _meaning(kernel: Kernel) -> str:
    """Text that is the same for equal kernels."""
    # A template's parameters name operands of its epilogue, so those keep their names.
    body = numbered(kernel.body) if isinstance(kernel.body, Region) else kernel.body
    meaning = body.model_dump(mode="json")
    rest = kernel.model_dump(mode="json", exclude={"name", "body", "computes", "skills"})
    return json.dumps([meaning, rest], sort_keys=True)


def numbered(region: Region) -> Region:
    """The region with operands and values named by their order."""
    stages = (*region.stages, *([region.total_stage] if region.total_stage else []))
    names: dict[str, str] = {}
    for operand in (*region.inputs, *region.outputs):
        names.setdefault(operand.name, f"operand_{len(names)}")
    for op in (op for stage in stages for op in stage.ops):
        names.setdefault(op.name, f"value_{len(names)}")
    for item in (*(item for stage in stages for item in stage.reductions), *region.total):
        # The maximum of a softmax has a name made of the sum's.
        number = len(names)
        names.setdefault(item.name, f"value_{number}_sum")
        if item.fold == "softmax":
            names.setdefault(item.top, f"value_{number}_max")
    return region.model_copy(
        update={
            "inputs": tuple(item.model_copy(update={"name": names[item.name]}) for item in region.inputs),
            "outputs": tuple(item.model_copy(update={"name": names[item.name]}) for item in region.outputs),
            "stages": tuple(_stage(stage, names) for stage in region.stages),
            "total": tuple(_reduction(item, names) for item in region.total),
            "total_stage": _stage(region.total_stage, names) if region.total_stage else None,
        }
    )


def _stage(stage: Stage, names: dict[str, str]) -> Stage:
    return stage.model_copy(
        update={
            "ops": tuple(_op(op, names) for op in stage.ops),
            "reductions": tuple(_reduction(item, names) for item in stage.reductions),
            "stores": tuple(
                Store(operand=names[item.operand], value=_named(item.value, names)) for item in stage.stores
            ),
        }
    )


def _op(op: Op, names: dict[str, str]) -> Op:
    args = tuple(_named(arg, names) if isinstance(arg, str) else arg for arg in op.args)
    return Op(name=names[op.name], fn=op.fn, args=args)


def _reduction(item: Reduction, names: dict[str, str]) -> Reduction:
    return item.model_copy(update={"name": names[item.name], "value": _named(item.value, names)})


def _named(name: str, names: dict[str, str]) -> str:
    return name if name in NON_FINITE else names.get(name, name)
