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
from kernelskill.program.program import Kernel
from kernelskill.program.template import CppFunction
from kernelskill.program.templates.around import Around

FEW_ROWS = 4
"""Rows below which a long row is shared among threads; the shared part is read twice, the second time from cache."""
PART = 131072
"""Elements of a shared row that a thread takes at a time: half a megabyte."""
TASKS = 16
"""Blocks that a strided scan is cut into at least, so that there is one for each thread."""
NARROWEST = 64
MOST_PARTS = 64
"""Threads that share a row at most."""


def function(kernel: Kernel) -> CppFunction:
    """Print the kernel.

    Raises:
        ProgramError: its parameters are not those of a scan.
    """
    return _Printer(kernel).function()


class _Printer(Around):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, lambda lanes, _: max(2, lanes // 2))
        self.length = int(self.parameters["length"])
        self.reverse = bool(self.parameters["reverse"])
        self.exclusive = bool(self.parameters["exclusive"])
        self.is_sum = self.parameters["fold"] == "sum"
        self.start = "" if self.is_sum else " + 1.0"
        """What a register of neutral elements adds to zeros."""
        self.symbol = "+" if self.is_sum else "*"
        axes = self.reads.region.axes
        self.inner = math.prod(axes[i].size for i in self.reads.after)
        if self.exclusive and self.reverse:
            raise ProgramError("a reversed exclusive scan is not printed")

    def function(self) -> CppFunction:
        bits = 32 * self.lanes
        self.out.add(
            f"using F = floats{self.lanes};", f"typedef double D __attribute__((vector_size({bits // 4})));"
        )
        if self.inner > 1:
            self._strided()
        else:
            self._contiguous()
        return self.printed()

    def _carries(self, declared: str) -> str:
        """A declaration of registers that start from the neutral element."""
        return f"D {declared}{{}};" if self.is_sum else f"D {declared} = D{{}} + 1.0;"

    # -- contiguous axis ---------------------------------------------------------------------------

    def _contiguous(self) -> None:
        if any(len(side.walked) != 1 for side in (self.reads, self.writes)):
            raise ProgramError("a scan walks one axis")
        self.reads.fill(self.length)
        # The neutral element before an exclusive scan is stored alone.
        self.writes.fill(self.length, *([self.lanes + 1] if self.exclusive else []))
        self._running()
        shared = self._is_shared()
        if not shared:
            self.reads.parallel(self.rows, self.rows * self.length)
        if self.rows > 1:
            self.out.open(f"for (long row = 0; row < {self.rows}; ++row)")
        for side in (self.reads, self.writes):
            side.move(side.before, "row", "_row")
        self.reads.declare("read", [], self.reads.walked[0])
        self.writes.declare("write", [], self.writes.walked[0])
        if self.exclusive:
            self.out.add(f"{self.writes.call([], '0', self._neutral(), '1')};")
        if shared:
            self._shared_row()
        else:
            self.out.add(self._carries("carry"))
            self._walk("0", str(self.length), self.length % self.lanes)
        if self.rows > 1:
            self.out.close()

    def _neutral(self) -> str:
        return "F{}" if self.is_sum else "F{} + 1.0f"

    def _is_shared(self) -> bool:
        if not self.is_sum or self.schedule.split == 1 or self.length < 4 * PART:
            return False
        return self.schedule.split > 1 or self.rows < FEW_ROWS

    def _running(self) -> None:
        """A lambda: a register scanned in place, with `carry` before it and moved behind it."""
        lanes, steps = self.lanes, []
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
        self.out.add(
            f"const D neutral{'{}' if self.is_sum else ' = D{} + 1.0'};",
            "D p = __builtin_convertvector(x, D);",
            *steps,
        )
        self.out.add(
            f"const D y = carry {self.symbol} p;", f"carry {self.symbol}= __builtin_shuffle(p, M{{{last}}});"
        )
        self.out.add("return __builtin_convertvector(y, F);")
        self.out.close(";")

    def _scanned(self, source: str, target: str, rest: int = 0, keep: bool = False) -> str:
        """The statement that scans one register of elements; `rest` are in it where it is not full."""
        given = [str(rest)] if rest else []
        read = self.reads.call([], source, *given)
        if keep:
            read = f"keep({read}, {'0.0f' if self.is_sum else '1.0f'}, {rest})"
        return f"{self.writes.call([], target, f'running({read}, carry)', *given)};"

    def _walk(self, begin: str, end: str, rest: int) -> None:
        """Scan the elements from `begin` to `end`, counted in the order of the scan; `rest` don't fill a register."""
        lanes, out = self.lanes, self.out
        known = int(end) - rest if end.isdigit() else None
        if self.schedule.unroll > 1 and known != 0:
            out.add(f"#pragma GCC unroll {self.schedule.unroll}")
        if self.reverse:
            first = str(self.length - lanes) if begin == "0" else f"{self.length - lanes}L - {begin}"
            stop = str(rest) if begin == "0" else f"{self.length}L - {end}"
            if known != 0:
                out.add(f"for (long j = {first}; j >= {stop}; j -= {lanes}) {self._scanned('j', 'j')}")
            if rest:
                # Lanes beyond the row come first in a reversed register: they must be neutral.
                out.add(self._scanned("0", "0", rest, keep=True))
            return
        stop = end if known is None else str(known)
        if known != 0:
            target = "j + 1" if self.exclusive else "j"
            out.add(f"for (long j = {begin}; j < {stop}; j += {lanes}) {self._scanned('j', target)}")
        if rest:
            out.add(self._last(int(stop), rest))

    def _last(self, place: int, rest: int) -> str:
        return self._scanned(str(place), str(place + self.exclusive), rest)

    def _shared_row(self) -> None:
        """Parts of a chunk are summed in parallel, then scanned in parallel from what came before."""
        lanes, out = self.lanes, self.out
        rest = self.length % lanes
        whole = self.length - rest
        most = min(self.schedule.threads or MOST_PARTS, MOST_PARTS)
        out.add(
            "double before = 0;",
            f"const int parts = std::min(threads, {most});",
            f"double sums[{MOST_PARTS}];",
        )
        out.open(f"for (long chunk = 0; chunk < {whole}; chunk += parts * {PART}L)")
        out.add("#pragma omp parallel for num_threads(parts) schedule(static)")
        out.open("for (int part = 0; part < parts; ++part)")
        self._bounds(whole)
        read = self.reads.call([], f"{self.length - lanes}L - t" if self.reverse else "t")
        out.add(
            "D sum{};",
            f"for (long t = begin; t < end; t += {lanes}) sum += __builtin_convertvector({read}, D);",
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
            out.add(self._scanned("0", "0", rest, keep=True) if self.reverse else self._last(whole, rest))

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
        rest = inner % lanes
        self.reads.parallel(self.rows * blocks, self.rows * self.length * inner)
        if self.rows * blocks > 1:
            out.open(f"for (long task = 0; task < {self.rows * blocks}; ++task)")
        for side in (self.reads, self.writes):
            side.fill(inner)
            side.move(side.before, "task" if blocks == 1 else f"task / {blocks}", "_row")
        self.reads.declare("read", [(self.reads.walked[0], "s")], self.reads.after[0])
        self.writes.declare("write", [(self.writes.walked[0], "s")], self.writes.after[0])
        low, high = "0", str(inner - rest)
        if blocks > 1:
            place = "task" if self.rows == 1 else f"task % {blocks}"
            end = f"std::min(low + {block}L, {inner - rest}L)" if inner % block else f"low + {block}"
            out.add(f"const long low = {place} * {block}L, high = {end};")
            low, high = "low", "high"
        out.add(f"D carry[{block // lanes}]{'{}' if self.is_sum else ''};")
        if not self.is_sum:
            out.add("for (D& c : carry) c = D{} + 1.0;")
        last = f"if (task % {blocks} == {blocks - 1})" if blocks > 1 else ""
        if self.exclusive:
            if high != "0":
                neutral = self.writes.call(["0"], "j", self._neutral())
                out.add(f"for (long j = {low}; j < {high}; j += {lanes}) {neutral};")
            if rest:
                neutral = self.writes.call(["0"], str(inner - rest), self._neutral(), str(rest))
                out.add(f"{last} {neutral};".strip())
        step = f"s = {self.length - 1}; s >= 0; --s" if self.reverse else f"s = 0; s < {self.length}; ++s"
        out.open(f"for (long {step})")
        if high != "0":
            out.add("D* c = carry;")
            out.open(f"for (long j = {low}; j < {high}; j += {lanes}, ++c)")
            self._carried("*c", "j")
            out.close()
        if rest:
            carry = "*c" if high != "0" else "carry[0]"
            if last:
                out.open(last)
            self._carried(carry, str(inner - rest), str(rest))
            if last:
                out.close()
        out.close()
        if self.rows * blocks > 1:
            out.close()

    def _carried(self, carry: str, place: str, *rest: str) -> None:
        """Add a register of elements to its carry, which is the result."""
        read = self.reads.call(["s"], place, *rest)
        write = self.writes.call(
            ["s + 1" if self.exclusive else "s"], place, f"__builtin_convertvector({carry}, F)", *rest
        )
        self.out.add(f"{carry} {self.symbol}= __builtin_convertvector({read}, D);", f"{write};")
