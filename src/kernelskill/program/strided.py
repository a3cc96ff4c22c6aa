"""Rows whose elements lie apart: the contiguous axis enumerates rows, so a block of rows is folded at once.

Each register holds one element of sixteen rows; a block of registers is kept while the reduce axes are walked.
"""

from __future__ import annotations

import math

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.program.folds import IDENTITY, combine, registers_of
from kernelskill.program.memory_access import EXTREMES
from kernelskill.program.nests import Nest, touched
from kernelskill.program.region import Reduction, Stage

LONGEST_SUM = 128
"""Terms added in sequence before a partial sum is set aside."""


class StridedNest(Nest):
    """Prints a region whose last axis is parallel."""

    def body(self) -> str:
        """Text between the braces of the function."""
        region, lanes, out = self.region, self.lanes, self.out
        if region.total:
            raise ProgramError("a total over strided rows is not printed")
        self.begin()
        inner = region.axes[-1].size
        self.registers = max(1, -(-min(self.schedule.block, inner) // lanes))
        block = self.registers * lanes
        outer = [index for index, axis in enumerate(region.axes[:-1]) if axis.role == "parallel"]
        per_row = -(-inner // block)
        tasks = math.prod(region.axes[i].size for i in outer) * per_row
        self.parallel(tasks, self._elements())
        out.open(f"for (long task = 0; task < {tasks}; ++task)")
        pointers = self._moved(
            {name: name for name in (*self.inputs, *self.outputs)},
            outer,
            "task" if per_row == 1 else f"task / {per_row}",
            "_row",
        )
        place = "0L" if per_row == 1 else f"{'task' if not outer else f'task % {per_row}'} * {block}L"
        out.add(
            f"const long first = {place};",
            f"const int width = std::min({block}L, {inner}L - first), full = width / {lanes}, "
            f"rest = width % {lanes};",
        )
        for stage in region.stages:
            if stage.kind == "reduce":
                self._strided_reduce(stage, pointers)
            elif stage.kind == "scalar":
                self._strided_scalar(stage, pointers)
            else:
                self._strided_map(stage, pointers)
        out.close()
        return out.text()

    def _strided_reduce(self, stage: Stage, pointers: dict[str, str]) -> None:
        out = self.out
        length, long_sums = self.region.row_length, []
        for item in stage.reductions:
            if item.fold == "softmax":
                raise ProgramError("a one-pass softmax needs contiguous rows")
            if item.fold in EXTREMES:
                self._register_array(f"{item.name}_best", IDENTITY[item.fold])
                self._register_array(item.name, 0.0)
                continue
            self._register_array(item.name, IDENTITY[item.fold])
            if item.fold == "sum" and length > LONGEST_SUM:
                long_sums.append(item)
                self._register_array(f"{item.name}_aside", 0.0)
        moved = self._open_reduce(stage, pointers)
        out.open("auto take = [&](int r, long j, auto... n)")
        self._vector_ops(stage, moved, len(self.region.axes) - 1)
        for item in stage.reductions:
            if item.fold in EXTREMES:
                best, place = registers_of(item)
                text = f"{best}[r], {place}[r], {self._as_vector(item.value)}, F{{}} + float(k)"
                out.add(f"{EXTREMES[item.fold]}({text});")
                continue
            out.add(f"{item.name}[r] = {combine(item.fold, f'{item.name}[r]', item.value)};")
        out.close(";")
        self._over_registers("take")
        if long_sums:
            self._set_aside(long_sums)
        out.close()
        for item in long_sums:
            out.add(f"for (int r = 0; r < {self.registers}; ++r) {item.name}[r] += {item.name}_aside[r];")
        self.row_values.update(item.name for item in stage.reductions)

    def _set_aside(self, sums: list[Reduction]) -> None:
        out = self.out
        out.open(f"if (k % {LONGEST_SUM} == {LONGEST_SUM - 1})")
        out.open(f"for (int r = 0; r < {self.registers}; ++r)")
        for item in sums:
            out.add(f"{item.name}_aside[r] += {item.name}[r];", f"{item.name}[r] = F{{}};")
        out.close()
        out.close()

    def _open_reduce(self, stage: Stage, pointers: dict[str, str]) -> dict[str, str]:
        reduce = [index for index, axis in enumerate(self.region.axes) if axis.role == "reduce"]
        self.out.open(f"for (long k = 0; k < {self.region.row_length}; ++k)")
        return self._moved(pointers, reduce, "k", "_k", touched(stage))

    def _strided_scalar(self, stage: Stage, pointers: dict[str, str]) -> None:
        out = self.out
        last = len(self.region.axes) - 1
        floats = [op.name for op in stage.ops if op.fn not in scalar.MASKS and op.fn != "load"]
        for name in floats:
            self._register_array(name, None)
        out.open("")
        out.open("auto settle = [&](int r, long j, auto... n)")
        for op in stage.ops:
            if op.fn == "load":
                operand = self.inputs[str(op.args[0])]
                out.add(
                    f"auto {op.name} = {self._load(operand, pointers[operand.name], operand.strides[last])};"
                )
                continue
            text = scalar.on_vectors(op.fn, tuple(self._broadcast(op.fn, item) for item in op.args))
            out.add(f"auto {op.name} = {text};" if op.fn in scalar.MASKS else f"{op.name}[r] = {text};")
            if op.name in floats:
                self.row_values.add(op.name)
        for store in stage.stores:
            operand = self.outputs[store.operand]
            out.add(self._store(operand, pointers[operand.name], store.value, operand.strides[last]))
        out.close(";")
        self._over_registers("settle")
        out.close()

    def _strided_map(self, stage: Stage, pointers: dict[str, str]) -> None:
        out = self.out
        moved = self._open_reduce(stage, pointers)
        out.open("auto step = [&](int r, long j, auto... n)")
        last = len(self.region.axes) - 1
        self._vector_ops(stage, moved, last)
        for store in stage.stores:
            operand = self.outputs[store.operand]
            out.add(self._store(operand, moved[operand.name], store.value, operand.strides[last]))
        out.close(";")
        self._over_registers("step")
        out.close()

    def _over_registers(self, function: str) -> None:
        self.out.add(
            f"for (int r = 0; r < full; ++r) {function}(r, first + r * {self.lanes});",
            f"if (rest) {function}(full, first + full * {self.lanes}, rest);",
        )

    def _register_array(self, name: str, start: float | None) -> None:
        self.out.add(f"F {name}[{self.registers}];")
        if start is not None:
            value = f"F{{}} + {scalar.literal(start)}" if start else "F{}"
            self.out.add(f"for (F& value : {name}) value = {value};")

    def _broadcast(self, fn: str, argument: str | float) -> str | float:
        """Values of a row are registers here, one per block of sixteen rows."""
        return f"{argument}[r]" if argument in self.row_values else argument

    def _as_vector(self, name: str) -> str:
        return f"{name}[r]" if name in self.row_values else name
