"""Names as kernels in Triton have them."""

from __future__ import annotations

import builtins

from kernelskill.program.region import Reduction, Region, Stage
from kernelskill.program.triton.text import LOCALS, respelled


def on_tiles(region: Region) -> Region:
    """The region as kernels in Triton spell it: pointers have names of their own, so values may have the operands'."""
    region = respelled(region)
    stages = (*region.stages, *([region.total_stage] if region.total_stage else []))
    ops = {op.name: op for stage in stages for op in stage.ops}
    taken = {*ops, *_folds(region)}
    names: dict[str, str] = {}
    for op in ops.values():
        short = str(op.args[0]) if op.fn == "load" else op.name.removesuffix("_j").removesuffix("_value")
        if short != op.name and short not in taken | LOCALS and not hasattr(builtins, short):
            names[op.name] = short
            taken.add(short)
    return _with_values(region, names)


def _folds(region: Region) -> set[str]:
    """Names that folds have."""
    items = [item for stage in region.stages for item in stage.reductions]
    return {name for item in (*items, *region.total) for name in (item.name, item.top)}


def _with_values(region: Region, names: dict[str, str]) -> Region:
    """The region with values of other names; its operands keep theirs."""
    return region.model_copy(
        update={
            "stages": tuple(renamed(stage, names) for stage in region.stages),
            "total": tuple(_folded(item, names) for item in region.total),
            "total_stage": renamed(region.total_stage, names) if region.total_stage else None,
        }
    )


def renamed(stage: Stage, names: dict[str, str]) -> Stage:
    """A stage whose values have other names."""
    return stage.model_copy(
        update={
            "ops": tuple(
                op.model_copy(
                    update={
                        "name": names.get(op.name, op.name),
                        "args": op.args if op.fn == "load" else tuple(_named(arg, names) for arg in op.args),
                    }
                )
                for op in stage.ops
            ),
            "reductions": tuple(_folded(item, names) for item in stage.reductions),
            "stores": tuple(
                item.model_copy(update={"value": names.get(item.value, item.value)}) for item in stage.stores
            ),
        }
    )


def _named(item: str | float, names: dict[str, str]) -> str | float:
    return names.get(item, item) if isinstance(item, str) else item


def _folded(item: Reduction, names: dict[str, str]) -> Reduction:
    return item.model_copy(update={"value": names.get(item.value, item.value)})


def finished(epilogue: Region, operand: str, value: str, suffix: str = "") -> Stage:
    """The stage of an epilogue whose operand is a value at hand; the names of its own end with a suffix."""
    (stage,) = epilogue.stages
    given = {op.name for op in stage.ops if op.fn == "load" and op.args[0] == operand}
    names = {op.name: value if op.name in given else f"{op.name}{suffix}" for op in stage.ops}
    kept = stage.model_copy(update={"ops": tuple(op for op in stage.ops if op.name not in given)})
    return renamed(kept, names)
