"""A sum and the sum of squares around its mean, in one walk instead of two.

Every lane keeps the mean of what it has seen and the squares around that (Welford); lanes, and the parts of a shared
row, are brought together by what their means differ from the whole. Nothing cancels, whatever the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelskill.program.region import Op, Reduction, Region
from kernelskill.program.statements import SUM
from kernelskill.program.triton.expressions import number
from kernelskill.program.triton.frame import Frame


@dataclass(frozen=True)
class Pair:
    """Two folds of consecutive walks: of a value, and of the square of its distance from the mean."""

    sum: Reduction
    squares: Reduction


def pairs(region: Region) -> dict[str, Pair]:
    """Name of either fold -> the pair, for all pairs of a region."""
    ops = {op.name: op for stage in region.stages for op in stage.ops}
    folds = [item for stage in region.stages for item in stage.reductions if item.fold == "sum"]
    found: dict[str, Pair] = {}
    for squares in folds:
        square = ops.get(squares.value)
        if square is None or square.fn != "mul" or square.args[0] != square.args[1]:
            continue
        apart = ops.get(str(square.args[0]))
        if apart is None or apart.fn != "sub":
            continue
        for item in folds:
            mean = ops.get(str(apart.args[1]))
            if (
                item.value == apart.args[0]
                and item.name not in found
                and _is_mean(mean, item, region.row_length)
            ):
                found[item.name] = found[squares.name] = Pair(item, squares)
    return found


def _is_mean(op: Op | None, item: Reduction, length: int) -> bool:
    if op is None or op.fn not in {"mul", "div"} or op.args[0] != item.name:
        return False
    factor = op.args[1]
    if not isinstance(factor, float | int):
        return False
    return math.isclose(factor * length if op.fn == "mul" else factor / length, 1.0, rel_tol=1e-6)


def start(frame: Frame, pair: Pair) -> list[str]:
    """What each lane starts from."""
    names = [f"{pair.sum.name}_mean", pair.squares.name]
    if frame.k_masked:
        names.append(f"{pair.sum.name}_count")
    return [f"{name} = tl.zeros({frame.tile}, tl.float32)" for name in names]


def join(frame: Frame, pair: Pair, first: str) -> list[str]:
    """Statements that take the next element of each lane; `first` is where the walk started."""
    name, value = pair.sum.name, frame.text(pair.sum.value, SUM)
    since = f"(start - {first})" if first != "0" else "start"
    apart = f"{value} - {name}_mean"
    lines = [f"{name}_share = 1.0 / ({since} // {frame.plan.block} + 1)"]
    if frame.k_masked:
        apart = f"tl.where(k_in, {apart}, 0.0)"
        lines.append(f"{name}_count += tl.where(k_in, 1.0, 0.0)")
    return [
        *lines,
        f"{name}_apart = {apart}",
        f"{name}_mean += {name}_apart * {name}_share",
        f"{pair.squares.name} += {name}_apart * {name}_apart * (1.0 - {name}_share)",
    ]


def settle(frame: Frame, pair: Pair) -> list[str]:
    """Statements that bring the lanes together."""
    name, squares, tail = pair.sum.name, pair.squares.name, f"axis={frame.axis}{frame.keep})"
    count, total = f"{name}_count", f"tl.sum({name}_count, {tail}"
    if not frame.k_masked:
        steps = frame.plan.stretch // frame.plan.block
        count, total = f"{steps}.0", f"{steps * frame.plan.block}.0"
    return [
        f"{name} = tl.sum({count} * {name}_mean, {tail}",
        f"{name}_apart = {name}_mean - tl.div_rn({name}, {total})",
        f"{squares} = tl.sum({squares} + {count} * {name}_apart * {name}_apart, {tail}",
    ]


def combine(frame: Frame, pair: Pair) -> list[str]:
    """Statements that bring the parts of a row together, after their sums and squares were read."""
    name, squares, tail = pair.sum.name, pair.squares.name, f"axis={frame.axis}{frame.keep})"
    stretch, length = frame.plan.stretch, frame.plan.length
    return [
        f"{name}_count = tl.maximum(tl.minimum({stretch}, {length} - parts * {stretch}), 0).to(tl.float32)",
        f"{name}_mean = tl.div_rn({name}, tl.maximum({name}_count, 1.0))",
        f"{name} = tl.sum({name}, {tail}",
        f"{name}_apart = {name}_mean - {name} * {number(1 / length)}",
        f"{squares} = tl.sum({squares} + {name}_count * {name}_apart * {name}_apart, {tail}",
    ]
