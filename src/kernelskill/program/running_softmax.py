"""The maximum of a row and the sum of exponentials below it in one walk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelskill.errors import ProgramError
from kernelskill.program.nests import Stretch
from kernelskill.program.region import Reduction, Stage

if TYPE_CHECKING:
    from kernelskill.program.rows import RowNest

SOFTMAX_BLOCK = 2048
"""Elements between two looks at the running maximum; a block stays in the first-level cache."""
LONGEST_KEPT = 16384
"""Elements of a row whose exponentials are kept for the walk that needs them again: 64 KB."""
LOWEST = "-__builtin_inff()"


def softmax_stage(nest: RowNest, stage: Stage, pointers: dict[str, str]) -> None:
    """Fold a row's running maximum and the sum of exponentials below it, block by block."""
    outer, length = nest.outer_axes()
    if len(stage.reductions) != 1 or outer:
        raise ProgramError("a one-pass softmax folds one value over one axis")
    item, out = stage.reductions[0], nest.out
    again = _exponential_again(nest, item, stage) if length <= LONGEST_KEPT else ""
    if again:
        out.add(f"alignas(64) float {again}_row[{length}];")
        nest.kept[again] = f"{again}_row"
    if again or length <= SOFTMAX_BLOCK:
        _single(nest, item, stage, pointers, length)
    else:
        _running(nest, item, stage, pointers, length)
    nest.row_values.update((item.top, item.name))


def _single(nest: RowNest, item: Reduction, stage: Stage, pointers: dict[str, str], length: int) -> None:
    """A row as one block."""
    out, top = nest.out, item.top
    out.add(f"float {top}, {item.name};")
    out.open("")
    _value(nest, item, stage, pointers)
    stretch = Stretch("0", str(length), (length,))
    _highest(nest, stretch)
    out.add(f"{top} = across_max(high0);", _base(top))
    _sum(nest, stretch, nest.kept)
    out.add(f"{item.name} = across_sum(sum0 + sum1);")
    out.close()


def _running(nest: RowNest, item: Reduction, stage: Stage, pointers: dict[str, str], length: int) -> None:
    """A row in several blocks: what came before is scaled down whenever the maximum rises."""
    out, top, total = nest.out, item.top, item.name
    rest = length % SOFTMAX_BLOCK
    end = f"std::min(begin + {SOFTMAX_BLOCK}L, {length}L)" if rest else f"begin + {SOFTMAX_BLOCK}"
    out.add(f"float {top} = {LOWEST}, {total} = 0.0f;")
    out.open(f"for (long begin = 0; begin < {length}; begin += {SOFTMAX_BLOCK})")
    out.add(f"const long end = {end};")
    _value(nest, item, stage, pointers)
    stretch = Stretch("begin", "end", (SOFTMAX_BLOCK, rest) if rest else (SOFTMAX_BLOCK,))
    _highest(nest, stretch)
    out.add(f"const float next = std::max({top}, across_max(high0));", _base("next"))
    _sum(nest, stretch, {})
    out.add(
        f"{total} = {total} * std::exp({top} - from) + across_sum(sum0 + sum1);",
        f"{top} = next;",
    )
    out.close()


def _value(nest: RowNest, item: Reduction, stage: Stage, pointers: dict[str, str]) -> None:
    """A lambda that gives a register of what softmax is taken of."""
    nest.out.open(f"auto value = [&](long j{nest.takes_n})")
    nest._vector_ops(stage, pointers, nest.last)
    nest.out.add(f"return {nest._value(item.value)};")
    nest.out.close(";")


def _base(top: str) -> str:
    return f"const float from = {top} == {LOWEST} ? 0.0f : {top};  // a row may be masked out altogether"


def _highest(nest: RowNest, stretch: Stretch) -> None:
    """The maximum of a stretch, in `high0`."""
    nest.out.add(
        f"F high0 = F{{}} {LOWEST[0]} {LOWEST[1:]}, high1 = high0;",
        "auto raise = [](F& high, F x) { high = x > high ? x : high; };  // a NaN shows in the sums",
    )
    rest = f"keep(value(j, {{}}), {LOWEST}, {{}})"
    _loops(nest, stretch, "raise(high{k}, value({j}));", "raise(high1, " + rest + ");", "long ")
    nest.out.add("raise(high0, high1);")


def _sum(nest: RowNest, stretch: Stretch, kept: Mapping[str, str]) -> None:
    """The sum of a stretch's exponentials, in `sum0` and `sum1`; an array may keep them."""
    out, n = nest.out, nest.n
    out.add("F sum0{}, sum1{};")
    if not kept:
        rest = "sum1 += keep(exp_(value(j, {}) - from), 0.0f, {});"
        _loops(nest, stretch, "sum{k} += exp_(value({j}) - from);", rest)
        return
    (array,) = kept.values()
    out.open(f"auto take = [&](F& sum, long j{nest.takes_n})")
    out.add(
        f"const F power = exp_(value(j{n}) - from);",
        f"sum += keep(power, 0.0f{n});" if n else "sum += power;",
        f"store({array} + j, power{n});",
    )
    out.close(";")
    _loops(nest, stretch, "take(sum{k}, {j});", "take(sum1, j, {});")


def _loops(nest: RowNest, stretch: Stretch, whole: str, rest: str, declared: str = "") -> None:
    """A statement on all registers of a stretch, two at a time, and one on the elements that fill none.

    Args:
        nest: where it is printed.
        stretch: the elements.
        whole: the statement, with {j} for the place and {k} for 0 or 1.
        rest: the other one, with {} for the number of elements; its place is j.
        declared: the type of j, where this loop is the first to use it.
    """
    out, lanes, end = nest.out, nest.lanes, stretch.end
    out.add(f"{declared}j = {stretch.begin};")
    if stretch.reaches(2 * lanes):
        out.open(f"for (; j + {2 * lanes} <= {end}; j += {2 * lanes})")
        out.add(whole.format(j="j", k=0), whole.format(j=f"j + {lanes}", k=1))
        out.close()
    if stretch.leaves(2 * lanes, lanes):
        out.add(f"for (; j + {lanes} <= {end}; j += {lanes}) {whole.format(j='j', k=0)}")
    if nest.n:
        out.add(f"if (j < {end}) {rest.replace('{}', f'{end} - j')}")


def _exponential_again(nest: RowNest, item: Reduction, stage: Stage) -> str:
    """Name of exp(value - maximum) in a later walk over the row; "" if none computes it."""
    stages = nest.region.stages
    for later in stages[stages.index(stage) + 1 :]:
        if later.kind == "map":
            below = {op.name for op in later.ops if op.fn == "sub" and op.args == (item.value, item.top)}
            for op in later.ops:
                if op.fn == "exp" and op.args[0] in below:
                    return op.name
    return ""
