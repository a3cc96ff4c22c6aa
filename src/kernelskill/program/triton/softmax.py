"""A maximum and the sum of exponentials below it, folded in one walk instead of two."""

from __future__ import annotations

from kernelskill.program.region import Reduction, Region, Stage
from kernelskill.program.triton.names import renamed


def joined(region: Region) -> Region:
    """The region with every such pair of folds as one fold of kind `softmax`."""
    for pair in _pairs(region):
        region = _joined(region, *pair)
    return region


def _pairs(region: Region) -> list[tuple[Reduction, Reduction]]:
    """(maximum, sum of exponentials below it), for folds of the same values."""
    ops = {op.name: op for stage in region.stages for op in stage.ops}
    folds = [item for stage in region.stages for item in stage.reductions]
    # A maximum that is a result itself must hold a NaN; a softmax shows it in the sum.
    stored = {store.value for stage in region.stages for store in stage.stores}
    tops = {item.name: item for item in folds if item.fold == "max" and item.name not in stored}
    found = []
    for item in folds:
        power = ops.get(item.value)
        below = ops.get(str(power.args[0])) if power and power.fn == "exp" else None
        if item.fold != "sum" or below is None or below.fn != "sub":
            continue
        top = tops.pop(str(below.args[1]), None)
        if top is not None and top.value == below.args[0]:
            found.append((top, item))
    return found


def _joined(region: Region, top: Reduction, total: Reduction) -> Region:
    """The region with one fold in place of the two; the maximum's name changes to the one that goes with the sum's."""
    both = Reduction(name=f"{top.name.removesuffix('_max')}_sum", fold="softmax", value=top.value)
    names = {top.name: both.top, total.name: both.name}
    stages: list[Stage] = []
    for stage in region.stages:
        others = tuple(item for item in stage.reductions if item not in (top, total))
        if top in stage.reductions:
            others = (both, *others)
        elif stage.reductions and not others:
            continue
        stages.append(renamed(stage.model_copy(update={"reductions": others}), names))
    last = region.total_stage
    return region.model_copy(
        update={
            "stages": tuple(stages),
            "total": tuple(
                item.model_copy(update={"value": names.get(item.value, item.value)}) for item in region.total
            ),
            "total_stage": renamed(last, names) if last else None,
        }
    )
