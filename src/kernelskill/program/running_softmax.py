"""The maximum of a row and the sum of exponentials below it in one walk."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kernelskill.errors import ProgramError
from kernelskill.program.region import Op, Reduction, Stage

if TYPE_CHECKING:
    from kernelskill.program.nests import Nest

SOFTMAX_BLOCK = 2048
"""Elements between two looks at the running maximum; a block stays in the first-level cache."""
LONGEST_KEPT = 16384
"""Elements of a row whose exponentials are kept for the walk that needs them again: 64 KB."""


def softmax_stage(nest: Nest, stage: Stage, pointers: dict[str, str]) -> None:
    """Fold a row's running maximum and the sum of exponentials below it, block by block."""
    if len(stage.reductions) != 1 or len(nest._blocks(False)[0]):
        raise ProgramError("a one-pass softmax folds one value over one axis")
    item, length = stage.reductions[0], nest._blocks(False)[1]
    top, total = f"{item.name}_max", item.name
    nest.out.add(f"float {top} = -__builtin_inff(), {total} = 0.0f;")
    again = _exponential_again(nest, item, stage) if length <= LONGEST_KEPT else ""
    if again:
        nest.out.add(f"alignas(64) float {again}_row[{length}];")
        nest.kept[again] = f"{again}_row"
    size = length if again else min(SOFTMAX_BLOCK, length)
    if size < length:
        nest.out.open(f"for (long begin = 0; begin < {length}; begin += {size})")
        nest.out.add(f"const long end = std::min(begin + {size}L, {length}L);")
    else:
        nest.out.open("")
        nest.out.add(f"const long begin = 0, end = {length};")
    nest.out.open("auto value = [&](long j, auto... n)")
    nest._vector_ops(stage, pointers, len(nest.region.axes) - 1)
    nest.out.add(f"return {nest._as_vector(item.value)};")
    nest.out.close(";")
    low = "-__builtin_inff()"
    nest.out.add(
        f"F high0 = F{{}} + {low}, high1 = high0, sum0{{}}, sum1{{}};",
        "auto raise = [](F& high, F x) { high = x > high ? x : high; };  // a NaN shows in the sums",
        "long j = begin;",
        f"for (; j + {2 * nest.lanes} <= end; j += {2 * nest.lanes}) {{",
        "  raise(high0, value(j));",
        f"  raise(high1, value(j + {nest.lanes}));",
        "}",
        f"for (; j + {nest.lanes} <= end; j += {nest.lanes}) raise(high0, value(j));",
        f"if (j < end) raise(high1, keep(value(j, end - j), {low}, end - j));",
        "raise(high0, high1);",
        f"const float next = std::max({top}, across_max(high0));",
        f"const float from = next == {low} ? 0.0f : next;  // a block may be masked out altogether",
        *_sum(nest.lanes, nest.kept.get(again, "")),
        f"{total} = {total} * std::exp({top} - from) + across_sum(sum0 + sum1);",
        f"{top} = next;",
    )
    nest.out.close()
    nest.row_values.update((top, total))


def still_needed(stage: Stage, kept: Collection[str]) -> list[Op]:
    """Operations of a stage without those that only led to values which were kept."""
    if not any(op.name in kept for op in stage.ops):
        return list(stage.ops)
    wanted: set[str | float] = {store.value for store in stage.stores}
    wanted |= {item.value for item in stage.reductions}
    found: list[Op] = []
    for op in reversed(stage.ops):
        if op.name in wanted:
            found.append(op)
            wanted |= set() if op.name in kept else set(op.args)
    return found[::-1]


def _sum(lanes: int, kept: str) -> list[str]:
    """The loops that add up exponentials, and keep them in an array if one is named."""
    if not kept:
        return [
            f"for (j = begin; j + {2 * lanes} <= end; j += {2 * lanes}) {{",
            "  sum0 += exp_(value(j) - from);",
            f"  sum1 += exp_(value(j + {lanes}) - from);",
            "}",
            f"for (; j + {lanes} <= end; j += {lanes}) sum0 += exp_(value(j) - from);",
            "if (j < end) sum0 += keep(exp_(value(j, end - j) - from), 0.0f, end - j);",
        ]
    return [
        "auto take = [&](F& sum, long j, auto... n) {",
        "  const F e = exp_(value(j, n...) - from);",
        "  sum += keep(e, 0.0f, n...);",
        f"  store({kept} + j, e, n...);",
        "};",
        f"for (j = begin; j + {2 * lanes} <= end; j += {2 * lanes}) take(sum0, j), take(sum1, j + {lanes});",
        f"for (; j + {lanes} <= end; j += {lanes}) take(sum0, j);",
        "if (j < end) take(sum0, j, end - j);",
    ]


def _exponential_again(nest: Nest, item: Reduction, stage: Stage) -> str:
    """Name of exp(value - maximum) in a later walk over the row; "" if none computes it."""
    stages = nest.region.stages
    for later in stages[stages.index(stage) + 1 :]:
        if later.kind == "map":
            below = {
                op.name for op in later.ops if op.fn == "sub" and op.args == (item.value, f"{item.name}_max")
            }
            for op in later.ops:
                if op.fn == "exp" and op.args[0] in below:
                    return op.name
    return ""
