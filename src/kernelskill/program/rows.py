"""Rows whose elements are contiguous: folded in registers, block by block.

Rows longer than a block are folded in double, block by block, which is as accurate as pairwise summation; where rows
are fewer than threads the blocks of a row are shared out instead.
"""

from __future__ import annotations

import math

from kernelskill.program import scalar
from kernelskill.program.folds import ACROSS, IDENTITY, SYMBOL, combine, initial, into, registers_of
from kernelskill.program.memory_access import EXTREMES
from kernelskill.program.nests import Nest, Stretch, as_float, touched
from kernelskill.program.region import Op, Reduction, Stage
from kernelskill.program.running_softmax import softmax_stage
from kernelskill.program.statements import ON_FLOATS, Statements, others, uses_in

BLOCK = 8192
"""Elements summed in float before the sum goes to double: at most 1024 in each of 8 lanes."""
LONG_ROW = 32768
"""Elements from which a row may be shared among threads."""
FEW_ROWS = 4
"""Rows below which it is: more rows keep most machines' threads busy with one parallel region instead of many."""


class RowNest(Nest):
    """Prints a region whose last axis is folded."""

    def body(self) -> str:
        """Text between the braces of the function."""
        region, out = self.region, self.out
        self.begin()
        self.fill(region.axes[-1].size)
        self.last = len(region.axes) - 1
        self.split = self._is_split()
        parallel = [index for index, axis in enumerate(region.axes) if axis.role == "parallel"]
        out.add(*(f"double {item.name}_sum = 0;" for item in region.total))
        if not self.split:
            clause = "".join(f" reduction(+ : {item.name}_sum)" for item in region.total)
            self.parallel(region.rows, self._elements(), clause)
        if region.rows > 1:
            out.open(f"for (long row = 0; row < {region.rows}; ++row)")
        pointers = self._row_pointers(parallel, "row") if region.rows > 1 else self._whole()
        for stage in region.stages:
            if stage.kind == "reduce":
                self._reduce_stage(stage, pointers)
            elif stage.kind == "scalar":
                self._scalar_stage(stage, pointers)
            else:
                self._map_stage(stage, pointers)
        out.add(*(f"{item.name}_sum += {item.value};" for item in region.total))
        if region.rows > 1:
            out.close()
        if region.total_stage:
            out.add(*(f"const float {item.name} = {item.name}_sum;" for item in region.total))
            self.row_values.update(item.name for item in region.total)
            self._scalar_stage(region.total_stage, self._whole())
        return out.text()

    def _is_split(self) -> bool:
        region = self.region
        if self.schedule.split == 1 or any(
            item.fold == "softmax" for stage in region.stages for item in stage.reductions
        ):
            return False
        return self.schedule.split > 1 or (region.rows < FEW_ROWS and region.row_length >= LONG_ROW)

    # -- blocks ------------------------------------------------------------------------------------

    def outer_axes(self) -> tuple[list[int], int]:
        """Reduce axes outside of the innermost one, and the length of that."""
        reduce = [index for index, axis in enumerate(self.region.axes) if axis.role == "reduce"]
        return reduce[:-1], self.region.axes[reduce[-1]].size

    def _is_block(self) -> bool:
        outer, length = self.outer_axes()
        return math.prod(self.region.axes[i].size for i in outer) == 1 and length <= BLOCK

    def _open_blocks(
        self, stage: Stage, pointers: dict[str, str], clause: str
    ) -> tuple[dict[str, str], Stretch]:
        """Open the loop over the blocks of a row, or a block where there is only one."""
        outer, length = self.outer_axes()
        size = min(length, BLOCK)
        per_row = -(-length // size)
        count = math.prod(self.region.axes[i].size for i in outer) * per_row
        whole = Stretch("0", str(length), (length,))
        if count == 1:
            self.out.open("")
            return pointers, whole
        if self.split:
            self.parallel(count, self._elements(), clause)
        self.out.open(f"for (long block = 0; block < {count}; ++block)")
        index = "block" if per_row == 1 else f"block / {per_row}"
        moved = self._moved(pointers, outer, index, "_b", touched(stage))
        if per_row == 1:
            return moved, whole
        place = "block" if not outer else f"block % {per_row}"
        rest = length % size
        end = f"std::min(begin + {size}L, {length}L)" if rest else f"begin + {size}"
        self.out.add(f"const long begin = {place} * {size}L, end = {end};")
        return moved, Stretch("begin", "end", (size, rest) if rest else (size,))

    # -- reductions --------------------------------------------------------------------------------

    def _reduce_stage(self, stage: Stage, pointers: dict[str, str]) -> None:
        if any(item.fold == "softmax" for item in stage.reductions):
            softmax_stage(self, stage, pointers)
            return
        if self._is_block():
            self.out.add(*(line for item in stage.reductions for line in _declared(item)))
            clause, suffix = "", ""
        else:
            self.out.add(*(line for item in stage.reductions for line in _started(item)))
            clause = "".join(
                f" reduction({SYMBOL[item.fold]} : {item.name}_all)"
                for item in stage.reductions
                if item.fold in SYMBOL
            )
            suffix = "_all"
        moved, stretch = self._open_blocks(stage, pointers, clause)
        self._fold(stage, moved, stretch, suffix)
        self.out.close()
        for item in stage.reductions:
            if suffix:
                self.out.add(f"const float {item.name} = {item.name}_all;")
            self.row_values.add(item.name)

    def _fold(self, stage: Stage, pointers: dict[str, str], stretch: Stretch, suffix: str) -> None:
        """Fold one stretch in `accumulators` registers per reduction, then into the row's values."""
        out, lanes = self.out, self.lanes
        names = [name for item in stage.reductions for name in registers_of(item)]
        count = self.schedule.accumulators if stretch.reaches(lanes * self.schedule.accumulators) else 1
        registers = [[register(name, k, count) for name in names] for k in range(count)]
        for item in stage.reductions:
            for name in registers_of(item):
                start = initial(item, name)
                out.add("F " + ", ".join(f"{register(name, k, count)}{start}" for k in range(count)) + ";")
        if count == 1 and not self.n:
            out.open(f"for (long j = {stretch.begin}; j < {stretch.end}; j += {lanes})")
            self._taken(stage, pointers, {name: register(name, 0, 1) for name in names})
            out.close()
        else:
            parameters = ", ".join(f"F& {name}" for name in names)
            out.open(f"auto take = [&](long j, {parameters}{self.takes_n})")
            self._taken(stage, pointers, {name: name for name in names})
            out.close(";")
            self._loops(stretch, registers)
        for item in stage.reductions:
            self._settled(item, count, suffix)

    def _loops(self, stretch: Stretch, registers: list[list[str]]) -> None:
        """Calls of `take` over a stretch."""
        out, lanes, end = self.out, self.lanes, stretch.end
        first, step = ", ".join(registers[0]), lanes * len(registers)
        if not stretch.reaches(lanes):
            out.add(f"take({stretch.begin}, {first}, {stretch.lengths[0]});")
            return
        together = [
            f"take(j{f' + {lanes * k}' if k else ''}, {', '.join(names)});"
            for k, names in enumerate(registers)
        ]
        if not self.n and (len(registers) == 1 or not stretch.leaves(step, lanes)):  # one loop takes all
            out.open(f"for (long j = {stretch.begin}; j < {end}; j += {step})")
            out.add(*together)
            out.close()
            return
        out.add(f"long j = {stretch.begin};")
        if len(registers) > 1:
            out.open(f"for (; j + {step} <= {end}; j += {step})")
            out.add(*together)
            out.close()
        if len(registers) == 1 or stretch.leaves(step, lanes):
            out.add(f"for (; j + {lanes} <= {end}; j += {lanes}) take(j, {first});")
        if self.n:
            out.add(f"if (j < {end}) take(j, {first}, ({end} - j) % {lanes});")

    def _taken(self, stage: Stage, pointers: dict[str, str], names: dict[str, str]) -> None:
        """Fold one register of elements into the registers of these names."""
        self._vector_ops(stage, pointers, self.last)
        for item in stage.reductions:
            value = self._value(item.value)
            kept = f"keep({value}, {scalar.literal(IDENTITY[item.fold])}{self.n})" if self.n else value
            if item.fold in EXTREMES:
                best, place = (names[name] for name in registers_of(item))
                self.out.add(f"{EXTREMES[item.fold]}({best}, {place}, {kept}, index_at<F>(j));")
                continue
            self.out.add(combine(item.fold, names[item.name], kept))

    def _settled(self, item: Reduction, count: int, suffix: str) -> None:
        """Registers as one value, and that into the row's."""
        out = self.out
        names = [[register(name, k, count) for k in range(count)] for name in registers_of(item)]
        if item.fold in EXTREMES:
            (top, place), function = names, EXTREMES[item.fold]
            for k in range(1, count):
                out.add(f"{function}({top[0]}, {place[0]}, {top[k]}, {place[k]});")
            if self.split and suffix:
                out.add("#pragma omp critical")
            out.add(f"across_{function}({item.name}_top, {item.name}{suffix}, {top[0]}, {place[0]});")
            return
        if item.fold in SYMBOL:
            whole = f" {SYMBOL[item.fold]} ".join(names[0])
        else:
            whole = names[0][0]
            for name in names[0][1:]:
                whole = f"{ACROSS.get(item.fold, item.fold)}_({whole}, {name})"
        across = f"across_{ACROSS.get(item.fold, item.fold)}({whole})"
        if not suffix:
            out.add(f"{item.name} = {across};")
            return
        if self.split and item.fold not in SYMBOL:
            out.add("#pragma omp critical")
        out.add(into(item, across))

    # -- values of rows ----------------------------------------------------------------------------

    def _scalar_stage(self, stage: Stage, pointers: dict[str, str]) -> None:
        out = self.out
        uses = uses_in([stage], others(self.region, stage))
        said = Statements(scalar.on_floats, ON_FLOATS, uses)
        for op in stage.ops:
            if op.fn == "load":
                operand = self.inputs[str(op.args[0])]
                due = [(op, as_float(operand, f"{pointers[operand.name]}[0]"))]
            else:
                due = said.of(op)
            for item, text in due:
                kind = "bool" if item.fn in scalar.MASKS or self._is_mask(item) else "float"
                out.add(f"const {kind} {item.name} = {text};")
            self.row_values.add(op.name)
        out.add(*(f"{pointers[store.operand]}[0] = {said.text(store.value)};" for store in stage.stores))

    def _is_mask(self, op: Op) -> bool:
        return op.fn == "load" and self.inputs[str(op.args[0])].dtype == "bool"

    def _map_stage(self, stage: Stage, pointers: dict[str, str]) -> None:
        if self._is_block() and not self.n:
            _, length = self.outer_axes()
            self._walk(stage, pointers, self.last, Stretch("0", str(length), (length,)))
            return
        moved, stretch = self._open_blocks(stage, pointers, "")
        self._walk(stage, moved, self.last, stretch)
        self.out.close()


def register(name: str, k: int, count: int) -> str:
    """The k-th of several registers of a fold."""
    return f"{name}{'_' if name[-1].isdigit() else ''}{k}" if count > 1 else f"{name}_lanes"


def _declared(item: Reduction) -> list[str]:
    """Where a fold of a single block leaves its value."""
    if item.fold in EXTREMES:
        return [f"float {item.name}_top = {scalar.literal(IDENTITY[item.fold])}, {item.name} = 0.0f;"]
    return [f"float {item.name};"]


def _started(item: Reduction) -> list[str]:
    """Where a fold of several blocks begins."""
    start = scalar.literal(IDENTITY[item.fold])
    if item.fold in EXTREMES:
        return [f"float {item.name}_top = {start}, {item.name}_all = 0.0f;"]
    return [f"double {item.name}_all = 0;" if item.fold == "sum" else f"float {item.name}_all = {start};"]
