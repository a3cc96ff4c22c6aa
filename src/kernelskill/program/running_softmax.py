"""The maximum of a row and the sum of exponentials below it in one walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelskill.errors import ProgramError
from kernelskill.program.region import Stage

if TYPE_CHECKING:
    from kernelskill.program.nests import Nest

SOFTMAX_BLOCK = 2048
"""Elements between two looks at the running maximum; a block stays in the first-level cache."""


def softmax_stage(nest: Nest, stage: Stage, pointers: dict[str, str]) -> None:
    """Fold a row's running maximum and the sum of exponentials below it, block by block."""
    if len(stage.reductions) != 1 or len(nest._blocks(False)[0]):
        raise ProgramError("a one-pass softmax folds one value over one axis")
    item, length = stage.reductions[0], nest._blocks(False)[1]
    top, total = f"{item.name}_max", item.name
    nest.out.add(f"float {top} = -__builtin_inff(), {total} = 0.0f;")
    size = min(SOFTMAX_BLOCK, length)
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
        f"for (j = begin; j + {2 * nest.lanes} <= end; j += {2 * nest.lanes}) {{",
        "  sum0 += exp_(value(j) - from);",
        f"  sum1 += exp_(value(j + {nest.lanes}) - from);",
        "}",
        f"for (; j + {nest.lanes} <= end; j += {nest.lanes}) sum0 += exp_(value(j) - from);",
        "if (j < end) sum0 += keep(exp_(value(j, end - j) - from), 0.0f, end - j);",
        f"{total} = {total} * std::exp({top} - from) + across_sum(sum0 + sum1);",
        f"{top} = next;",
    )
    nest.out.close()
    nest.row_values.update((top, total))
