"""Cumulative sum and product in one pass: forward, reversed, exclusive, with element-wise work before and after.

Values are accumulated in double, as the library does on the CPU, so every result is rounded once. Along a contiguous
axis a register of values is scanned by shifting and adding (three steps for eight values); what came before is added
as a whole register, so the chain from one register to the next is a single addition. Along another axis the registers
run over the contiguous one and need no shifts.

Parameters of the template:
    fold: "sum" or "prod".
    reverse: whether the last element comes first.
    exclusive: whether result 0 is the neutral element and result i+1 covers elements 0..i.
    length: number of elements read along the axis.
    value: name of the epilogue's operand that is the scanned value.
"""

from __future__ import annotations

import math

from kernelskill.errors import ProgramError
from kernelskill.program.nests import Lines
from kernelskill.program.program import Kernel, Template
from kernelskill.program.region import Region
from kernelskill.program.schedule import Schedule
from kernelskill.program.template import CppFunction, functions_of
from kernelskill.program.templates.pointwise import Pointwise

FEW_ROWS = 4
"""Rows below which a long row is shared among threads; the shared part is read twice, the second time from cache."""
PART = 131072
"""Elements of a shared row that a thread takes at a time: half a megabyte."""
TASKS = 16
"""Blocks that a strided scan is cut into at least, so that there is one for each thread."""
NARROWEST = 64


def function(kernel: Kernel) -> CppFunction:
    """Print the kernel.

    Raises:
        ProgramError: its parameters are not those of a scan.
    """
    template = kernel.body
    assert isinstance(template, Template)
    if template.prologue is None or template.epilogue is None:
        raise ProgramError(f"kernel {kernel.name}: a scan reads by its prologue and stores by its epilogue")
    return _Printer(template, template.prologue, template.epilogue, kernel.schedule).function()


class _Printer:
    def __init__(self, template: Template, before: Region, after: Region, schedule: Schedule) -> None:
        self.parameters = template.parameters
        self.schedule = schedule
        self.out = Lines()
        self.lanes = max(2, schedule.lanes // 2)
        self.reads = Pointwise(before, schedule, self.out, self.lanes)
        self.writes = Pointwise(after, schedule, self.out, self.lanes, str(template.parameters["value"]))
        self.length = int(template.parameters["length"])
        self.reverse = bool(template.parameters["reverse"])
        self.exclusive = bool(template.parameters["exclusive"])
        self.is_sum = template.parameters["fold"] == "sum"
        self.start = "0.0" if self.is_sum else "1.0"
        self.symbol = "+" if self.is_sum else "*"
        self.rows = math.prod(before.axes[i].size for i in self.reads.before)
        self.inner = math.prod(before.axes[i].size for i in self.reads.after)
        self.shift = 1 if self.exclusive else 0
        if self.exclusive and self.reverse:
            raise ProgramError("a reversed exclusive scan is not printed")

    def function(self) -> CppFunction:
        bits = 32 * self.lanes
        self.out.add(
            f"typedef float F __attribute__((vector_size({bits // 8})));",
            f"typedef double D __attribute__((vector_size({bits // 4})));",
        )
        if self.inner > 1:
            self._strided()
        else:
            self._contiguous()
        regions = (self.reads.region, self.writes.region)
        operands = [operand for region in regions for operand in (*region.inputs, *region.outputs)]
        out = self.writes.region.outputs[0]
        return CppFunction(
            body=self.out.text(),
            functions=functions_of(regions[0]) | functions_of(regions[1]),
            dtypes=frozenset(operand.dtype for operand in operands) | {"float32"},
            inputs=(*self.reads.operands(), *self.writes.operands()),
            outputs=((out.name, out.dtype),),
        )

    # -- contiguous axis ---------------------------------------------------------------------------

    def _contiguous(self) -> None:
        if any(len(side.walked) != 1 for side in (self.reads, self.writes)):
            raise ProgramError("a scan walks one axis")
        shared = self._is_shared()
        self._running()
        if not shared:
            self.reads.parallel(self.rows, self.rows * self.length)
        self.out.open(f"for (long row = 0; row < {self.rows}; ++row)" if self.rows > 1 else "")
        for side in (self.reads, self.writes):
            side.move(side.before, "row", "_row")
        self.reads.reader("in", [], self.reads.walked[0])
        self.writes.writer("out", [], self.writes.walked[0])
        if self.exclusive:
            self.out.add(f"out(0, F{{}} + {self.start}f, 1);")
        if shared:
            self._shared_row()
        else:
            self.out.add(f"D carry = D{{}} + {self.start};")
            self._walk("0", str(self.length), self.length % self.lanes)
        self.out.close()

    def _is_shared(self) -> bool:
        if not self.is_sum or self.schedule.split == 1 or self.length < 4 * PART:
            return False
        return self.schedule.split > 1 or self.rows < FEW_ROWS

    def _running(self) -> None:
        """A lambda: a register scanned in place, with `carry` before it and moved behind it."""
        lanes, steps = self.lanes, []
        neutral = "D{}" if self.is_sum else "D{} + 1.0"
        distance = 1
        while distance < lanes:
            order = [
                (i + distance if i + distance < lanes else lanes)
                if self.reverse
                else (i - distance if i >= distance else lanes)
                for i in range(lanes)
            ]
            mask = ", ".join(map(str, order))
            steps.append(f"p {self.symbol}= __builtin_shuffle(p, neutral, M{{{mask}}});")
            distance *= 2
        last = ", ".join([str(0 if self.reverse else lanes - 1)] * lanes)
        self.out.add(f"typedef long long M __attribute__((vector_size({8 * lanes})));")
        self.out.open("auto running = [](F x, D& carry) -> F")
        self.out.add(f"const D neutral = {neutral};", "D p = __builtin_convertvector(x, D);", *steps)
        self.out.add(
            f"const D y = carry {self.symbol} p;", f"carry {self.symbol}= __builtin_shuffle(p, M{{{last}}});"
        )
        self.out.add("return __builtin_convertvector(y, F);")
        self.out.close(";")

    def _walk(self, begin: str, end: str, rest: int) -> None:
        """Scan the elements from `begin` to `end`, counted in the order of the scan; `rest` don't fill a register."""
        lanes, out = self.lanes, self.out
        whole = int(end) - rest if begin == "0" and end.isdigit() else None
        unroll = self.schedule.unroll
        if unroll > 1:
            out.add(f"#pragma GCC unroll {unroll}")
        if not self.reverse:
            stop = str(whole) if whole is not None else f"{end} - {rest}"
            target = "j + 1" if self.shift else "j"
            if whole != 0:
                out.add(
                    f"for (long j = {begin}; j < {stop}; j += {lanes}) out({target}, running(in(j), carry));"
                )
            if rest:
                last = f"{stop} + 1" if self.shift else stop
                out.add(f"out({last}, running(in({stop}, {rest}), carry), {rest});")
            return
        first = str(self.length - lanes) if begin == "0" else f"{self.length - lanes}L - {begin}"
        stop = str(rest) if begin == "0" else f"{self.length}L - {end}"
        if whole != 0:
            out.add(f"for (long j = {first}; j >= {stop}; j -= {lanes}) out(j, running(in(j), carry));")
        if rest:
            # Lanes beyond the row come first in a reversed register: they must be neutral.
            kept = f"keep(in(0, {rest}), {self.start}f, {rest})"
            out.add(f"out(0, running({kept}, carry), {rest});")

    def _shared_row(self) -> None:
        """Parts of a chunk are summed in parallel, then scanned in parallel from what came before."""
        lanes, out = self.lanes, self.out
        rest = self.length % lanes
        whole = self.length - rest
        most = self.schedule.threads or 64
        count = f"std::min(threads, {min(most, 64)})"
        out.add(
            "double before = 0;",
            f"const int parts = {count};",
            "double sums[64];",
        )
        out.open(f"for (long chunk = 0; chunk < {whole}; chunk += parts * {PART}L)")
        out.add("#pragma omp parallel for num_threads(parts) schedule(static)")
        out.open("for (int part = 0; part < parts; ++part)")
        self._bounds(whole)
        place = f"{self.length - lanes}L - t" if self.reverse else "t"
        out.add(
            "D sum{};",
            f"for (long t = begin; t < end; t += {lanes}) sum += __builtin_convertvector(in({place}), D);",
            "double total = 0;",
            f"for (int i = 0; i < {lanes}; ++i) total += sum[i];",
            "sums[part] = total;",
        )
        out.close()
        out.add("#pragma omp parallel for num_threads(parts) schedule(static)")
        out.open("for (int part = 0; part < parts; ++part)")
        self._bounds(whole)
        out.add("D carry = D{} + before;", "for (int i = 0; i < part; ++i) carry += sums[i];")
        self._walk("begin", "end", 0)
        out.close()
        out.add("for (int part = 0; part < parts; ++part) before += sums[part];")
        out.close()
        if rest:
            out.add("D carry = D{} + before;")
            shift = " + 1" if self.shift else ""
            read = f"keep(in(0, {rest}), 0.0f, {rest})" if self.reverse else f"in({whole}, {rest})"
            place = "0" if self.reverse else f"{whole}{shift}"
            out.add(f"out({place}, running({read}, carry), {rest});")

    def _bounds(self, whole: int) -> None:
        self.out.add(
            f"const long begin = std::min(chunk + part * {PART}L, {whole}L), end = std::min(begin + {PART}L, {whole}L);"
        )

    # -- strided axis ------------------------------------------------------------------------------

    def _strided(self) -> None:
        if any(len(side.after) != 1 for side in (self.reads, self.writes)):
            raise ProgramError("a strided scan needs one axis inside the scanned one")
        out, lanes, inner = self.out, self.lanes, self.inner
        fair = -(-inner // max(1, TASKS // self.rows))
        block = min(self.schedule.block, max(NARROWEST, fair), inner)
        block = -(-block // lanes) * lanes
        blocks = -(-inner // block)
        self.reads.parallel(self.rows * blocks, self.rows * self.length * inner)
        out.open(f"for (long task = 0; task < {self.rows * blocks}; ++task)")
        for side in (self.reads, self.writes):
            side.move(side.before, "task" if blocks == 1 else f"task / {blocks}", "_row")
        rest = inner % lanes
        self.reads.reader("in", [(self.reads.walked[0], "s")], self.reads.after[0])
        self.writes.writer("out", [(self.writes.walked[0], "s")], self.writes.after[0])
        if blocks > 1:
            out.add(
                f"const long low = task % {blocks} * {block}L, high = std::min(low + {block}L, {inner - rest}L);"
            )
        else:
            out.add(f"const long low = 0, high = {inner - rest};")
        out.add(
            f"D carry[{block // lanes}];",
            f"for (D& c : carry) c = D{{}} + {self.start};",
        )
        last = self._rest_condition(rest, blocks, block)
        if self.exclusive:
            out.add(f"for (long j = low; j < high; j += {lanes}) out(0, j, F{{}} + {self.start}f);")
            if rest:
                out.add(f"{last}out(0, {inner - rest}, F{{}} + {self.start}f, {rest});")
        order = (
            f"long s = {self.length - 1}; s >= 0; --s"
            if self.reverse
            else f"long s = 0; s < {self.length}; ++s"
        )
        out.open(f"for ({order})")
        out.add(
            "D* c = carry;",
            f"for (long j = low; j < high; j += {lanes}, ++c) {{",
            f"  *c {self.symbol}= __builtin_convertvector(in(s, j), D);",
            f"  out({'s + 1' if self.shift else 's'}, j, __builtin_convertvector(*c, F));",
            "}",
        )
        if rest:
            out.open(last.strip() if last else "")
            out.add(
                f"*c {self.symbol}= __builtin_convertvector(in(s, {inner - rest}, {rest}), D);",
                f"out({'s + 1' if self.shift else 's'}, {inner - rest}, __builtin_convertvector(*c, F), {rest});",
            )
            out.close()
        out.close()
        out.close()

    def _rest_condition(self, rest: int, blocks: int, block: int) -> str:
        """Text before a statement that only the block with the last, unfilled register does."""
        return f"if (task % {blocks} == {blocks - 1}) " if rest and blocks > 1 else ""
