"""The last fold over all rows: one small program adds what the others left in a workspace, always in one order."""

from __future__ import annotations

from kernelskill.program.program import Kernel
from kernelskill.program.region import Region
from kernelskill.program.statements import ON_TILES, Statements, uses_in
from kernelskill.program.triton.addresses import address, up_to_power_of_two
from kernelskill.program.triton.expressions import expression
from kernelskill.program.triton.text import Launch, Text, pointer, walked

BLOCK = 4096
"""Partial sums taken at a time."""


def total_launch(kernel: Kernel, region: Region, workspaces: dict[str, tuple[int, str]]) -> Launch:
    """The launch that folds all totals of a region and computes what follows from them."""
    out, stage = Text(), region.total_stage
    assert stage is not None
    said = Statements(expression, ON_TILES, uses_in([stage]))
    pointers: dict[str, None] = {}
    held = 0
    for item in region.total:
        space = f"{item.name}_rows"
        count = workspaces[space][0]
        pointers.setdefault(space)
        block = min(BLOCK, up_to_power_of_two(count))
        mask = f", mask=lane < {count}, other=0.0" if count < block else ""
        if block != held:
            out.add(f"lane = tl.arange(0, {block})")
        held = block
        if count <= block:
            out.add(f"{item.name} = tl.sum(tl.load({pointer(space)} + lane{mask}), axis=0)")
            continue
        out.add(f"{item.name} = tl.zeros([{block}], tl.float32)")
        out.open(walked("0", str(count), block, kernel.schedule.gpu.num_stages))
        mask = f", mask=start + lane < {count}, other=0.0" if count % block else ""
        out.add(f"{item.name} += tl.load({pointer(space)} + start + lane{mask})")
        out.close()
        out.add(f"{item.name} = tl.sum({item.name}, axis=0)")
    operands = {item.name: item for item in (*region.inputs, *region.outputs)}
    for op in stage.ops:
        if op.fn == "load":
            operand = operands[str(op.args[0])]
            pointers.setdefault(operand.name)
            cast = "" if operand.dtype in {"float32", "bool"} else ".to(tl.float32)"
            out.add(f"{op.name} = tl.load({address(operand, ())}){cast}")
        else:
            out.add(*(f"{due.name} = {text}" for due, text in said.of(op)))
    for store in stage.stores:
        operand = operands[store.operand]
        pointers.setdefault(operand.name)
        out.add(f"tl.store({address(operand, ())}, {said.text(store.value)})")
    return Launch(
        f"_{kernel.name}_{'_'.join(item.name for item in region.total)}", out, tuple(pointers), 1, 8
    )
