"""Region + schedule -> the body of one C++ function.

Two shapes of loop nest are here: a map over the whole space, and rows whose elements are contiguous and are folded in
registers (`strided.py` has the third). Rows longer than a block are folded block by block in double, which is as
accurate as pairwise summation; where rows are fewer than threads the blocks of a row are shared out instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelskill.program import scalar
from kernelskill.program.folds import ACROSS, IDENTITY, SYMBOL, combine, into, registers_of
from kernelskill.program.lines import Lines
from kernelskill.program.memory_access import EXTREMES
from kernelskill.program.region import Operand, Reduction, Region, Stage
from kernelskill.program.running_softmax import softmax_stage, still_needed
from kernelskill.program.schedule import Schedule

__all__ = ["TYPES", "Lines", "Nest", "touched"]

BLOCK = 8192
"""Elements summed in float before the sum goes to double: at most 1024 in each of 8 lanes."""
LONG_ROW = 32768
"""Elements from which a row may be shared among threads."""
FEW_ROWS = 4
"""Rows below which it is: more rows keep most machines' threads busy with one parallel region instead of many."""


class Nest:
    """Prints one region."""

    def __init__(self, region: Region, schedule: Schedule) -> None:
        self.region = region
        self.schedule = schedule
        self.lanes = schedule.lanes
        self.out = Lines()
        self.inputs = {operand.name: operand for operand in region.inputs}
        self.outputs = {operand.name: operand for operand in region.outputs}
        self.row_values: set[str] = set()
        """Names that hold one float per row."""
        self.kept: dict[str, str] = {}
        """Values of each element that an earlier walk has left in an array: name -> array."""

    def body(self) -> str:
        """Text between the braces of the function."""
        self.begin()
        if self.region.is_map:
            self._map_nest()
        else:
            self._row_nest()
        return self.out.text()

    def begin(self) -> None:
        """What every function starts with."""
        self.out.add(f"using F = floats{self.lanes};")
        self.out.add(*(f"{item.name} += {item.offset};" for item in self.region.inputs if item.offset))

    # -- parallel loops ----------------------------------------------------------------------------

    def parallel(self, tasks: int, elements: int, clauses: str = "") -> None:
        """The pragma before a loop over independent tasks, if the work is worth a second thread."""
        most = min(tasks, max(1, elements // self.schedule.grain))
        if self.schedule.threads:
            most = min(most, self.schedule.threads)
        if most <= 1:
            return
        count = f"std::min(threads, {most})" if most < 64 else "threads"
        self.out.add(f"#pragma omp parallel for num_threads({count}) schedule(static){clauses}")

    def _elements(self) -> int:
        return math.prod(axis.size for axis in self.region.axes)

    # -- maps --------------------------------------------------------------------------------------

    def _map_nest(self) -> None:
        axes, stage = self.region.axes, self.region.stages[0]
        inner = axes[-1].size
        rows = math.prod(axis.size for axis in axes[:-1])
        elements = self._elements()
        if len(axes) == 1 or rows == 1:
            self._step(stage, {name: name for name in (*self.inputs, *self.outputs)}, len(axes) - 1)
            whole = inner // self.lanes
            unroll = self.schedule.unroll if whole >= 8 * self.schedule.unroll else 1
            if whole:
                self.parallel(whole // unroll, elements)
                at = self.lanes * unroll
                calls = [f"step({at} * i{f' + {self.lanes * k}' if k else ''});" for k in range(unroll)]
                self.out.add(f"for (long i = 0; i < {whole // unroll}; ++i) {_braced(calls)}")
            for place in range(whole // unroll * unroll, whole):
                self.out.add(f"step({place * self.lanes});")
            if inner % self.lanes:
                self.out.add(f"step({whole * self.lanes}, {inner % self.lanes});")
            return
        self.parallel(rows, elements)
        self.out.open(f"for (long row = 0; row < {rows}; ++row)")
        moved = self._row_pointers(range(len(axes) - 1), "row")
        self._step(stage, moved, len(axes) - 1)
        self._walk(inner)
        self.out.close()

    def _unroll(self) -> None:
        if self.schedule.unroll > 1:
            self.out.add(f"#pragma GCC unroll {self.schedule.unroll}")

    def _walk(self, length: int, begin: str = "0", end: str = "") -> None:
        """Calls of `step` over a contiguous stretch, with a shorter last one."""
        lanes = self.lanes
        if end:
            self.out.add(f"long j = {begin};")
            self._unroll()
            self.out.add(f"for (; j + {lanes} <= {end}; j += {lanes}) step(j);")
            self.out.add(f"if (j < {end}) step(j, ({end} - j) % {lanes});")
            return
        whole = length // lanes * lanes
        if whole:
            self._unroll()
            self.out.add(f"for (long j = 0; j < {whole}; j += {lanes}) step(j);")
        if length % lanes:
            self.out.add(f"step({whole}, {length % lanes});")

    def _step(self, stage: Stage, pointers: dict[str, str], axis: int) -> None:
        """A lambda that computes one register's worth; given a length, less than that."""
        self.out.open("auto step = [&](long j, auto... n)")
        self._vector_ops(stage, pointers, axis)
        for store in stage.stores:
            operand = self.outputs[store.operand]
            self.out.add(self._store(operand, pointers[operand.name], store.value, operand.strides[axis]))
        self.out.close(";")

    # -- rows --------------------------------------------------------------------------------------

    def _row_nest(self) -> None:
        region = self.region
        parallel = [index for index, axis in enumerate(region.axes) if axis.role == "parallel"]
        rows, split = region.rows, self._is_split()
        if region.total:
            self.out.add(*(f"double {item.name}_sum = 0;" for item in region.total))
        if not split:
            clause = "".join(f" reduction(+ : {item.name}_sum)" for item in region.total)
            self.parallel(rows, self._elements(), clause)
        if rows > 1:
            self.out.open(f"for (long row = 0; row < {rows}; ++row)")
        pointers = (
            self._row_pointers(parallel, "row") if rows > 1 else {n: n for n in (*self.inputs, *self.outputs)}
        )
        for stage in region.stages:
            if stage.kind == "reduce":
                self._reduce_stage(stage, pointers, split)
            elif stage.kind == "scalar":
                self._scalar_stage(stage, pointers)
            else:
                self._row_map_stage(stage, pointers, split)
        self.out.add(*(f"{item.name}_sum += {item.value};" for item in region.total))
        if rows > 1:
            self.out.close()
        if region.total_stage:
            self.out.add(*(f"const float {item.name} = {item.name}_sum;" for item in region.total))
            self.row_values.update(item.name for item in region.total)
            self._scalar_stage(region.total_stage, {name: name for name in (*self.inputs, *self.outputs)})

    def _is_split(self) -> bool:
        region = self.region
        if self.schedule.split == 1 or any(
            item.fold == "softmax" for stage in region.stages for item in stage.reductions
        ):
            return False
        return self.schedule.split > 1 or (region.rows < FEW_ROWS and region.row_length >= LONG_ROW)

    def _blocks(self, split: bool) -> tuple[list[int], int, int, int]:
        """Outer reduce axes, length of the innermost, elements in a block, number of blocks."""
        reduce = [index for index, axis in enumerate(self.region.axes) if axis.role == "reduce"]
        outer, length = reduce[:-1], self.region.axes[reduce[-1]].size
        size = min(length, BLOCK)
        return outer, length, size, math.prod(self.region.axes[i].size for i in outer) * -(-length // size)

    def _open_blocks(
        self, stage: Stage, pointers: dict[str, str], split: bool, clause: str
    ) -> tuple[dict[str, str], bool]:
        """Open the loop over the blocks of a row, if there is more than one."""
        outer, length, size, count = self._blocks(split)
        if count == 1:
            return pointers, False
        if split:
            self.parallel(count, self._elements(), clause)
        self.out.open(f"for (long block = 0; block < {count}; ++block)")
        per_row = -(-length // size)
        index = "block" if per_row == 1 else f"block / {per_row}"
        moved = self._moved(pointers, outer, index, "_b", touched(stage))
        if per_row > 1:
            place = "block" if not outer else f"block % {per_row}"
            self.out.add(f"const long begin = {place} * {size}L, end = std::min(begin + {size}L, {length}L);")
        return moved, True

    def _bounds(self, split: bool) -> tuple[str, str, int]:
        """Begin and end of the innermost stretch ("" = the whole axis), and its length where it is fixed."""
        _, length, size, _ = self._blocks(split)
        return ("0", "", length) if size == length else ("begin", "end", size)

    def _reduce_stage(self, stage: Stage, pointers: dict[str, str], split: bool) -> None:
        if any(item.fold == "softmax" for item in stage.reductions):
            softmax_stage(self, stage, pointers)
            return
        for item in stage.reductions:
            kind = "double" if item.fold == "sum" else "float"
            start = "0" if item.fold == "sum" else scalar.literal(IDENTITY[item.fold])
            if item.fold in EXTREMES:
                self.out.add(f"float {item.name}_top = {start}, {item.name}_all = 0.0f;")
                continue
            self.out.add(f"{kind} {item.name}_all = {start};")
        clause = "".join(
            f" reduction({SYMBOL[item.fold]} : {item.name}_all)"
            for item in stage.reductions
            if item.fold in SYMBOL
        )
        moved, opened = self._open_blocks(stage, pointers, split, clause)
        if not opened:
            self.out.open("")
        self._fold(stage, moved, split)
        self.out.close()
        for item in stage.reductions:
            self.out.add(f"const float {item.name} = {item.name}_all;")
            self.row_values.add(item.name)

    def _fold(self, stage: Stage, pointers: dict[str, str], split: bool) -> None:
        """Fold one stretch in `accumulators` registers per reduction, then into the row's values."""
        begin, end, length = self._bounds(split)
        lanes, names = self.lanes, [name for item in stage.reductions for name in registers_of(item)]
        count = self.schedule.accumulators if length >= lanes * self.schedule.accumulators else 1
        parameters = ", ".join(f"F& {name}" for name in names)
        self.out.open(f"auto take = [&](long j, {parameters}, auto... n)")
        self._vector_ops(stage, pointers, len(self.region.axes) - 1)
        for item in stage.reductions:
            kept = f"keep({self._as_vector(item.value)}, {scalar.literal(IDENTITY[item.fold])}, n...)"
            if item.fold in EXTREMES:
                self.out.add(
                    f"{EXTREMES[item.fold]}({', '.join(registers_of(item))}, {kept}, index_at<F>(j));"
                )
                continue
            self.out.add(f"{item.name} = {combine(item.fold, item.name, kept)};")
        self.out.close(";")
        for item in stage.reductions:
            for name in registers_of(item):
                initial = IDENTITY[item.fold] if name != item.name or item.fold not in EXTREMES else 0.0
                start = f"F{{}} + {scalar.literal(initial)}" if initial else "F{}"
                self.out.add("F " + ", ".join(f"{name}{k} = {start}" for k in range(count)) + ";")
        last = end or f"{length}"
        self.out.add(f"long j = {begin};")
        step = lanes * count
        if count > 1:
            self.out.open(f"for (; j + {step} <= {last}; j += {step})")
            for k in range(count):
                self.out.add(
                    f"take(j{f' + {lanes * k}' if k else ''}, {', '.join(f'{name}{k}' for name in names)});"
                )
            self.out.close()
        first = ", ".join(f"{name}0" for name in names)
        if end or length % step >= lanes or count == 1:
            self.out.add(f"for (; j + {lanes} <= {last}; j += {lanes}) take(j, {first});")
        if end or length % lanes:
            self.out.add(f"if (j < {last}) take(j, {first}, ({last} - j) % {lanes});")
        for item in stage.reductions:
            if item.fold in EXTREMES:
                self._fold_extreme(item, count, split)
                continue
            whole = f"{item.name}0"
            for k in range(1, count):
                whole = combine(item.fold, whole, f"{item.name}{k}")
            if split and item.fold not in SYMBOL:
                self.out.add("#pragma omp critical")
            self.out.add(into(item, f"across_{ACROSS.get(item.fold, item.fold)}({whole})"))

    def _fold_extreme(self, item: Reduction, count: int, split: bool) -> None:
        """An extreme and its place, out of all registers."""
        top, place = registers_of(item)
        for k in range(1, count):
            self.out.add(f"{EXTREMES[item.fold]}({top}0, {place}0, {top}{k}, {place}{k});")
        if split:
            self.out.add("#pragma omp critical")
        self.out.add(f"across_{EXTREMES[item.fold]}({item.name}_top, {item.name}_all, {top}0, {place}0);")

    def _scalar_stage(self, stage: Stage, pointers: dict[str, str]) -> None:
        for op in stage.ops:
            if op.fn == "load":
                operand = self.inputs[str(op.args[0])]
                value = _cast(operand, f"{pointers[operand.name]}[0]")
            else:
                value = scalar.on_floats(op.fn, op.args)
            kind = "bool" if op.fn in scalar.MASKS or self._is_mask_load(op.fn, op.args) else "float"
            self.out.add(f"const {kind} {op.name} = {value};")
            self.row_values.add(op.name)
        for store in stage.stores:
            self.out.add(f"{pointers[store.operand]}[0] = {store.value};")

    def _row_map_stage(self, stage: Stage, pointers: dict[str, str], split: bool) -> None:
        moved, opened = self._open_blocks(stage, pointers, split, "")
        if not opened:
            self.out.open("")
        self._step(stage, moved, len(self.region.axes) - 1)
        begin, end, length = self._bounds(split)
        self._walk(length, begin, end)
        self.out.close()

    # -- shared pieces -----------------------------------------------------------------------------

    def _row_pointers(self, axes: Iterable[int], index: str) -> dict[str, str]:
        """Pointers to the first element of a row, given its number."""
        return self._moved({name: name for name in (*self.inputs, *self.outputs)}, list(axes), index, "_row")

    def _moved(
        self, pointers: dict[str, str], axes: list[int], index: str, suffix: str, only: set[str] | None = None
    ) -> dict[str, str]:
        """Pointers advanced along some axes by a combined index; those not in `only` stay."""
        moved = dict(pointers)
        sizes = [self.region.axes[axis].size for axis in axes]
        for name in pointers:
            if only is not None and name not in only:
                continue
            operand = self.inputs.get(name) or self.outputs[name]
            terms = []
            for place, axis in enumerate(axes):
                step = operand.strides[axis]
                if step == 0 or sizes[place] == 1:
                    continue
                below = math.prod(sizes[place + 1 :])
                above = math.prod(sizes[:place])
                term = f"({index})" if " " in index and below > 1 else index
                term = term if below == 1 else f"{term} / {below}"
                term = term if above == 1 else f"{term} % {sizes[place]}"
                terms.append(f"({term}) * {step}L" if " " in term else f"{term} * {step}L")
            if terms:
                constant = "const " if name in self.inputs else ""
                moved[name] = f"{name}{suffix}"
                self.out.add(
                    f"{constant}{TYPES[operand.dtype]}* {moved[name]} = {pointers[name]} + {' + '.join(terms)};"
                )
        return moved

    def _vector_ops(self, stage: Stage, pointers: dict[str, str], axis: int) -> None:
        for op in still_needed(stage, self.kept):
            if op.name in self.kept:
                self.out.add(f"F {op.name} = load<F>({self.kept[op.name]} + j, n...);")
                continue
            if op.fn == "load":
                operand = self.inputs[str(op.args[0])]
                text = self._load(operand, pointers[operand.name], operand.strides[axis])
                self.out.add(f"auto {op.name} = {text};")
                continue
            args = tuple(self._broadcast(op.fn, argument) for argument in op.args)
            kind = "auto" if op.fn in scalar.MASKS else "F"
            self.out.add(f"{kind} {op.name} = {scalar.on_vectors(op.fn, args)};")

    def _broadcast(self, fn: str, argument: str | float) -> str | float:
        """A value of the row stands beside vectors as it is in infix operations, spread out elsewhere."""
        if argument in self.row_values and fn not in scalar.INFIX and fn not in scalar.COMPARE:
            return f"F{{}} + {argument}"
        return argument

    def _as_vector(self, name: str) -> str:
        return f"F{{}} + {name}" if name in self.row_values else name

    def _load(self, operand: Operand, pointer: str, step: int) -> str:
        kind = "load_mask" if operand.dtype == "bool" else "load"
        if step == 0:
            value = _cast(operand, f"{pointer}[0]")
            return f"(F{{}} < 0.0f) | -int({value})" if operand.dtype == "bool" else f"F{{}} + {value}"
        if step == 1:
            return f"{kind}<F>({pointer} + j, n...)"
        return f"{kind}_strided<F>({pointer} + j * {step}L, {step}L, n...)"

    def _store(self, operand: Operand, pointer: str, value: str, step: int) -> str:
        if step != 1:
            return f"store_strided({pointer} + j * {step}L, {step}L, {self._as_vector(value)}, n...);"
        stream = self.schedule.nontemporal and operand.dtype == "float32"
        return f"{'stream' if stream else 'store'}({pointer} + j, {self._as_vector(value)}, n...);"

    def _is_mask_load(self, fn: str, args: tuple[str | float, ...]) -> bool:
        return fn == "load" and self.inputs[str(args[0])].dtype == "bool"


TYPES = {
    "float32": "float", "float16": "_Float16", "bfloat16": "bf16", "float64": "double",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
"""Storage type -> C++ type."""


def _braced(calls: list[str]) -> str:
    return calls[0] if len(calls) == 1 else f"{{ {' '.join(calls)} }}"


def touched(stage: Stage) -> set[str]:
    """Operands that a stage reads or writes."""
    reads = {str(op.args[0]) for op in stage.ops if op.fn == "load"}
    return reads | {store.operand for store in stage.stores}


def _cast(operand: Operand, text: str) -> str:
    return text if operand.dtype in {"float32", "bool"} else f"float({text})"
