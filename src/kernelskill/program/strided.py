"""Rows whose elements lie apart: the contiguous axis enumerates rows, so a block of rows is folded at once.

Each register holds one element of as many rows as it has lanes; a block of registers is kept while the reduce axes are
walked.
"""

from __future__ import annotations

import math

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.program.folds import combine, initial, registers_of
from kernelskill.program.memory_access import EXTREMES
from kernelskill.program.nests import Nest, touched
from kernelskill.program.region import Reduction, Stage
from kernelskill.program.statements import others, used_by

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
        self.last = len(region.axes) - 1
        self.inner = region.axes[-1].size
        self.registers = max(1, -(-min(self.schedule.block, self.inner) // lanes))
        self.block = self.registers * lanes
        self.fill(self.inner)
        self.is_single = self.inner <= lanes
        """Whether one register holds all rows."""
        if self.is_single and self.n:
            self.n = f", {self.inner}"
        outer = [index for index, axis in enumerate(region.axes[:-1]) if axis.role == "parallel"]
        per_row = -(-self.inner // self.block)
        tasks = math.prod(region.axes[i].size for i in outer) * per_row
        self.parallel(tasks, self._elements())
        if tasks > 1:
            out.open(f"for (long task = 0; task < {tasks}; ++task)")
        index = "task" if per_row == 1 else f"task / {per_row}"
        pointers = self._moved(self._whole(), outer, index, "_row")
        self._bounds(per_row, bool(outer))
        for stage in region.stages:
            if stage.kind == "reduce":
                self._reduce(stage, pointers)
            elif stage.kind == "scalar":
                self._settle(stage, pointers)
            else:
                self._map(stage, pointers)
        if tasks > 1:
            out.close()
        return out.text()

    def _bounds(self, per_row: int, has_outer: bool) -> None:
        """Print where a block of rows begins and how many registers it fills."""
        out, lanes, block, inner = self.out, self.lanes, self.block, self.inner
        self.first = "first" if per_row > 1 else "0"
        self.full = "full"
        if per_row > 1:
            out.add(f"const long first = {f'task % {per_row}' if has_outer else 'task'} * {block}L;")
        if inner % block == 0 or per_row == 1:
            self.full, self.rest = str(min(inner, block) // lanes), str(min(inner, block) % lanes)
            return
        width = f"std::min({block}L, {inner}L - first)"
        if self.n:
            out.add(f"const int width = {width}, full = width / {lanes}, rest = width % {lanes};")
            self.rest = "rest"
        else:
            out.add(f"const int full = {width} / {lanes};")
            self.rest = "0"

    # -- stages ------------------------------------------------------------------------------------

    def _reduce(self, stage: Stage, pointers: dict[str, str]) -> None:
        out = self.out
        length, long_sums = self.region.row_length, []
        for item in stage.reductions:
            if item.fold == "softmax":
                raise ProgramError("a one-pass softmax needs contiguous rows")
            for name in registers_of(item):
                self._register_array(name, initial(item, name))
            if item.fold == "sum" and length > LONGEST_SUM:
                long_sums.append(item)
                self._register_array(f"{item.name}_aside", "{}")
        moved = self._open_reduce(stage, pointers)
        self._open_registers("take")
        self._vector_ops(stage, moved, self.last)
        for item in stage.reductions:
            names = [self._at(name) for name in registers_of(item)]
            if item.fold in EXTREMES:
                text = f"{', '.join(names)}, {self._value(item.value)}, F{{}} + float(k)"
                out.add(f"{EXTREMES[item.fold]}({text});")
                continue
            out.add(combine(item.fold, names[0], self._value(item.value)))
        self._close_registers("take")
        if long_sums:
            self._set_aside(long_sums)
        out.close()
        for item in long_sums:
            out.add(f"{self._each()}{self._at(item.name)} += {self._at(f'{item.name}_aside')};")
        self.row_values.update(item.name for item in stage.reductions)

    def _set_aside(self, sums: list[Reduction]) -> None:
        out = self.out
        out.open(f"if (k % {LONGEST_SUM} == {LONGEST_SUM - 1})")
        if not self.is_single:
            out.open(self._each().strip())
        for item in sums:
            total = self._at(item.name)
            out.add(f"{self._at(f'{item.name}_aside')} += {total};", f"{total} = F{{}};")
        if not self.is_single:
            out.close()
        out.close()

    def _open_reduce(self, stage: Stage, pointers: dict[str, str]) -> dict[str, str]:
        reduce = [index for index, axis in enumerate(self.region.axes) if axis.role == "reduce"]
        self.out.open(f"for (long k = 0; k < {self.region.row_length}; ++k)")
        return self._moved(pointers, reduce, "k", "_k", touched(stage))

    def _settle(self, stage: Stage, pointers: dict[str, str]) -> None:
        """What is computed once per row: arrays of registers where other stages use it."""
        out, outside = self.out, others(self.region, stage)
        kept = used_by(outside)
        for op in stage.ops:
            if op.name in kept and op.fn not in scalar.MASKS:
                self._register_array(op.name, "")
        self.said = self._statements(stage, stage.ops, outside)
        placed = bool(stage.stores) or any(op.fn == "load" for op in stage.ops)
        if not placed:
            out.open(self._each().strip())
        elif self.n:
            out.open("")
        if placed:
            self._open_registers("settle")
        for op in stage.ops:
            if op.fn == "load":
                self._loaded(op, pointers, self.last)
                continue
            for due, text in self.said.of(op):
                kind = "auto" if due.fn in scalar.MASKS else "F"
                is_array = due.name in kept and kind == "F"
                out.add(
                    f"{self._at(due.name)} = {text};" if is_array else f"const {kind} {due.name} = {text};"
                )
                if is_array:
                    self.row_values.add(due.name)
        self._stored(stage, pointers, self.last)
        if placed:
            self._close_registers("settle")
        if self.n or not placed:
            out.close()

    def _map(self, stage: Stage, pointers: dict[str, str]) -> None:
        moved = self._open_reduce(stage, pointers)
        self._open_registers("step")
        self._computed(stage, moved, self.last)
        self._close_registers("step")
        self.out.close()

    # -- registers ---------------------------------------------------------------------------------

    def _open_registers(self, function: str) -> None:
        """Open what is done with each register of a block, the last one perhaps not full."""
        out = self.out
        if self.is_single:
            out.open("")
            out.add("const long j = 0;")
            return
        if self.n:
            out.open(f"auto {function} = [&](int r, long j{self.takes_n})")
            return
        out.open(f"for (int r = 0; r < {self.full}; ++r)")
        out.add(f"const long j = {self._place('r')};")

    def _close_registers(self, function: str) -> None:
        out = self.out
        if self.is_single or not self.n:
            out.close()
            return
        out.close(";")
        if self.full != "0":
            out.add(f"for (int r = 0; r < {self.full}; ++r) {function}(r, {self._place('r')});")
        last = f"{function}({self.full}, {self._place(self.full)}, {self.rest});"
        out.add(f"if (rest) {last}" if self.rest == "rest" else last)

    def _each(self) -> str:
        """The head of a loop over all registers; "" where there is only one."""
        return "" if self.is_single else f"for (int r = 0; r < {self.registers}; ++r) "

    def _at(self, name: str) -> str:
        """The register of an array that is worked on."""
        return f"{name}[0]" if self.is_single else f"{name}[r]"

    def _place(self, register: str) -> str:
        """The first element of a register."""
        if register.isdigit():
            place = str(int(register) * self.lanes)
            return place if self.first == "0" else f"first + {place}" if register != "0" else "first"
        place = f"{register} * {self.lanes}"
        return place if self.first == "0" else f"first + {place}"

    def _register_array(self, name: str, start: str) -> None:
        self.out.add(f"F {name}[{self.registers}]{start if start == '{}' else ''};")
        if start not in ("", "{}"):
            self.out.add(f"for (F& value : {name}) value{start};")

    def _broadcast(self, fn: str, argument: str | float) -> str | float:
        """Values of a row are registers here, one per block of as many rows."""
        return self._at(argument) if isinstance(argument, str) and argument in self.row_values else argument

    def _value(self, name: str) -> str:
        return self._at(name) if name in self.row_values else self.said.text(name)
