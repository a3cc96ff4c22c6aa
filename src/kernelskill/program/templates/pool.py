"""Maximum and average pooling over one, two or three dimensions, with element-wise work before and after.

A row of results is made in two steps. First the rows of the window are folded, register by register along the width,
into one line that is padded with neutral elements; then the windows are folded along that line. All reads of memory are
contiguous, padding costs nothing inside the planes, and overlapping windows find their rows in the cache. With stride 2
the places of the line are picked by a shuffle; with a larger stride the line is folded everywhere and then picked from.

Parameters of the template:
    fold: "max" or "mean".
    kernel, stride, padding, dilation: three numbers each, for depth, height and width.
    divisor: number that sums are divided by; 0 = the elements of the window.
    count_padding: whether elements of the window in the padding count.
    value: name of the epilogue's operand that is the pooled value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.lines import Lines
from kernelskill.program.program import Kernel, Template
from kernelskill.program.region import Region
from kernelskill.program.scalar import literal
from kernelskill.program.schedule import Schedule
from kernelskill.program.template import CppFunction, functions_of
from kernelskill.program.templates.pointwise import Pointwise

LONGEST_LINE = 4096
"""Elements of the line: 16 KiB, half of a small first-level cache."""
TASKS = 64
"""Pieces that the work is cut into at least, so that threads end together."""
UNROLLED = 16
"""Rows of a window that are folded without a loop."""


def function(kernel: Kernel) -> CppFunction:
    """Print the kernel.

    Raises:
        ProgramError: its parameters are not those of a pooling.
    """
    template = kernel.body
    assert isinstance(template, Template)
    if template.prologue is None or template.epilogue is None:
        raise ProgramError(f"kernel {kernel.name}: pooling reads by its prologue and stores by its epilogue")
    return _Printer(template, template.prologue, template.epilogue, kernel.schedule).function()


@dataclass(frozen=True)
class Window:
    """One dimension of the window."""

    size: int
    stride: int
    padding: int
    dilation: int
    length: int
    """Elements of the input."""
    results: int

    @property
    def span(self) -> int:
        """Elements from the first to the last one of the window."""
        return (self.size - 1) * self.dilation + 1

    @property
    def is_inside(self) -> bool:
        """Whether no window reaches into the padding."""
        return self.padding == 0 and (self.results - 1) * self.stride + self.span <= self.length

    def counts(self, with_padding: bool) -> list[int]:
        """Elements of each window that an average counts."""
        found = []
        for place in range(self.results):
            begin = place * self.stride - self.padding
            end = min(begin + self.size, self.length + self.padding)
            found.append(end - begin if with_padding else min(end, self.length) - max(begin, 0))
        return found


def windows(template: Template, before: Region, after: Region) -> tuple[Window, Window, Window]:
    """Depth, height and width of a pooling."""
    lengths = [axis.size for axis in before.axes if axis.role == "reduce"]
    results = [axis.size for axis in after.axes if axis.role == "reduce"]
    if len(lengths) != 3 or len(results) != 3:
        raise ProgramError("pooling walks depth, height and width")
    kernel, stride, padding, dilation = (
        template.parameters[name] for name in ("kernel", "stride", "padding", "dilation")
    )
    depth, height, width = (
        Window(int(kernel[d]), int(stride[d]), int(padding[d]), int(dilation[d]), lengths[d], results[d])
        for d in range(3)
    )
    return depth, height, width


class _Printer:
    def __init__(self, template: Template, before: Region, after: Region, schedule: Schedule) -> None:
        self.parameters = template.parameters
        self.is_max = template.parameters["fold"] == "max"
        self.depth, self.height, self.width = windows(template, before, after)
        self.out = Lines()
        self.schedule = schedule
        self.lanes = min(schedule.lanes, max(4, 1 << (self.width.results - 1).bit_length()))
        self.reads = Pointwise(before, schedule, self.out, self.lanes)
        self.writes = Pointwise(after, schedule, self.out, self.lanes, str(template.parameters["value"]))
        self.planes = math.prod(before.axes[i].size for i in self.reads.before)
        self.start = "F{} - __builtin_inff()" if self.is_max else "F{}"
        self.counts = self._counts()
        # Results are made in tiles whose line fits the cache; the last tile is moved back to be a whole one.
        most = max(
            self.lanes, (LONGEST_LINE - self.width.span) // self.width.stride // self.lanes * self.lanes
        )
        self.tile = min(self.width.results, most)
        self.tiles = -(-self.width.results // self.tile)
        self.line = (self.tile - 1) * self.width.stride + self.width.span

    def function(self) -> CppFunction:
        self.out.add(f"typedef float F __attribute__((vector_size({4 * self.lanes})));")
        if self.width.stride == 2:
            self.out.add(f"typedef int I __attribute__((vector_size({4 * self.lanes})));")
        self._widths()
        parts = min(self.height.results, -(-TASKS // (self.planes * self.depth.results)))
        tasks = self.planes * self.depth.results * parts
        self.reads.parallel(tasks, self._elements())
        self.out.open(f"for (long task = 0; task < {tasks}; ++task)")
        self._plane(parts)
        self._line()
        if self.counts is None:
            self.out.add(f"float scale[{self.width.results}];", "long scaled = 0;")
        self._lambdas()
        rows = self.height.results
        if parts > 1:
            self.out.add(f"const long part = task % {parts};")
            self.out.open(f"for (long h = {rows} * part / {parts}; h < {rows} * (part + 1) / {parts}; ++h)")
        else:
            self.out.open(f"for (long h = 0; h < {rows}; ++h)")
        self._rows()
        self._tiles()
        self.out.close()
        self.out.close()
        regions = (self.reads.region, self.writes.region)
        operands = [operand for region in regions for operand in (*region.inputs, *region.outputs)]
        stored = self.writes.region.outputs[0]
        return CppFunction(
            body=self.out.text(),
            functions=functions_of(regions[0])
            | functions_of(regions[1])
            | ({"max"} if self.is_max else set()),
            dtypes=frozenset(operand.dtype for operand in operands) | {"float32"},
            inputs=(*self.reads.operands(), *self.writes.operands()),
            outputs=((stored.name, stored.dtype),),
        )

    def _elements(self) -> int:
        area = self.depth.length * self.height.length * self.width.length
        return self.planes * max(area, self.depth.results * self.height.results * self.width.results)

    # -- once per plane ----------------------------------------------------------------------------

    def _plane(self, parts: int) -> None:
        depth, inner = self.depth, self.depth.results * parts
        plane = "task" if inner == 1 else f"task / {inner}"
        if depth.results > 1:
            index = "task" if parts == 1 else f"task / {parts}"
            self.out.add(f"const long plane = {plane}, d = {index} % {depth.results};")
        else:
            self.out.add(f"const long plane = {plane}, d = 0;")
        for side in (self.reads, self.writes):
            side.move(side.before, "plane", "_plane")
        self.out.add(f"const long front = {_first(depth, 'd')};")
        if not depth.is_inside:
            self._taps(depth, "front", "d0", "d1")

    def _line(self) -> None:
        width, lanes = self.width, self.lanes
        room = self.line + 3 * lanes
        ahead = -width.padding % lanes
        self.out.add(
            f"alignas({4 * lanes}) float space[{room + lanes}];", f"float* const line = space + {ahead};"
        )
        if width.stride > 2:
            self.out.add(f"float folded[{room}];")
        value = "-__builtin_inff()" if self.is_max else "0.0f"
        if self.tiles == 1 and not width.is_inside:
            self.out.add(f"for (float& x : space) x = {value};")

    def _lambdas(self) -> None:
        read, write = self.reads.walked, self.writes.walked
        self.reads.reader("in", [(read[0], "depth"), (read[1], "height")], read[2])
        self.writes.move([write[0]], "d", "_d")
        self.writes.writer("out", [(write[1], "h")], write[2])

    # -- once per row ------------------------------------------------------------------------------

    def _rows(self) -> None:
        self.out.add(f"const long top = {_first(self.height, 'h')};")
        if not self.height.is_inside:
            self._taps(self.height, "top", "h0", "h1")
        if not self.is_max and self.counts is None:
            self._row_scale()

    def _taps(self, window: Window, first: str, low: str, high: str) -> None:
        """The places of the window that lie inside the input."""
        step, length, size = window.dilation, window.length, window.size
        begin = f"-{first}" if step == 1 else f"({step - 1}L - {first}) / {step}"
        end = f"{length}L - {first}" if step == 1 else f"({length + step - 1}L - {first}) / {step}"
        self.out.add(
            f"const long {low} = {first} < 0 ? {begin} : 0, {high} = std::max({low}, std::min({size}L, {end}));"
        )

    def _tiles(self) -> None:
        out, width = self.out, self.width
        if self.tiles == 1:
            bounds = f", begin = 0, end = {self._reach()}" if self._reach() >= self.lanes else ", begin = 0"
            out.add(f"constexpr long left = 0, first = {-width.padding}{bounds};")
        else:
            out.open(f"for (long tile = 0; tile < {self.tiles}; ++tile)")
            out.add(
                f"const long left = std::min(tile * {self.tile}L, {width.results - self.tile}L);",
                f"const long first = {_first(width, 'left')};",
                f"const long begin = std::max(first, 0L), end = std::min(first + {self.line}L, {width.length}L);",
            )
            if not width.is_inside:
                value = "-__builtin_inff()" if self.is_max else "0.0f"
                out.add(
                    f"std::fill(line, line + (begin - first), {value});",
                    f"std::fill(line + (end - first), line + {self.line}, {value});",
                )
        self._vertical()
        self._horizontal()
        if self.tiles > 1:
            out.close()

    def _reach(self) -> int:
        """Elements of an input row that some window reads."""
        return min(self.width.length, self.line - self.width.padding)

    def _vertical(self) -> None:
        """Fold the rows of the window into the line."""
        out = self.out
        out.open("auto column = [&](long j, auto... n)")
        deep, high = self.depth, self.height
        whole = " && ".join(
            f"{hi} - {lo} == {window.size}"
            for window, lo, hi in ((deep, "d0", "d1"), (high, "h0", "h1"))
            if not window.is_inside
        )
        unrolled = deep.size * high.size <= UNROLLED
        if unrolled and whole:
            out.open(f"if ({whole})")
        if unrolled:
            self._fold_rows(
                [(a * deep.dilation, b * high.dilation) for a in range(deep.size) for b in range(high.size)]
            )
        if unrolled and whole:
            out.add("return;")
            out.close()
        if whole or not unrolled:
            d0, d1 = ("0", str(deep.size)) if deep.is_inside else ("d0", "d1")
            h0, h1 = ("0", str(high.size)) if high.is_inside else ("h0", "h1")
            row = f"in(front + a * {deep.dilation}, top + b * {high.dilation}, j, n...)"
            out.add(
                f"F x = {self.start};",
                f"for (long a = {d0}; a < {d1}; ++a)",
                f"  for (long b = {h0}; b < {h1}; ++b) x = {self._fold('x', row)};",
                "store(line + (j - first), x, n...);",
            )
        out.close(";")
        known = self._reach() if self.tiles == 1 else None
        self._cover("column", "begin", "end", known, min(self.lanes, self.width.length))

    def _fold_rows(self, rows: list[tuple[int, int]]) -> None:
        for place, (a, b) in enumerate(rows):
            row = f"in(front + {a}, top + {b}, j, n...)"
            self.out.add(f"F x = {row};" if place == 0 else f"x = {self._fold('x', row)};")
        self.out.add("store(line + (j - first), x, n...);")

    def _cover(self, call: str, begin: str, end: str, known: int | None, least: int) -> None:
        """Calls over a stretch; the last register lies over the one before it where the stretch is long enough."""
        lanes = self.lanes
        if known is not None and known < lanes:
            self.out.add(f"{call}({begin}, {known});")
            return
        if self.schedule.unroll > 1:
            self.out.add(f"#pragma GCC unroll {self.schedule.unroll}")
        loop = f"for (long j = {begin}; j + {lanes} <= {end}; j += {lanes}) {call}(j);"
        self.out.add(loop)
        if known is None:
            self.out.add(
                f"if (end - begin < {lanes}) {call}({begin}, {end} - {begin});",
                f"else if ((end - begin) % {lanes}) {call}({end} - {lanes});",
            )
        elif known % lanes:
            self.out.add(f"{call}({known - lanes});")

    def _horizontal(self) -> None:
        """Fold the windows along the line, and hand the results on."""
        out, width, lanes = self.out, self.width, self.lanes
        if width.stride > 2:
            last = self.line - width.span + 1
            out.open(f"for (long j = 0; j < {last}; j += {lanes})")
            out.add(*self._window("load<F>(line + j{})"), "store(folded + j, x);")
            out.close()
        out.open("auto window = [&](long j, auto... n)")
        if width.stride == 1:
            out.add(*self._window("load<F>(line + j{})"))
        elif width.stride == 2:
            even = ", ".join(str(2 * i) for i in range(lanes))
            pair = f"__builtin_shuffle(load<F>(line + 2 * j{{}}), load<F>(line + 2 * j{{}} + {lanes}), I{{{even}}})"
            out.add(*self._window(pair))
        else:
            out.add("F x;", f"for (int i = 0; i < {lanes}; ++i) x[i] = folded[(j + i) * {width.stride}];")
        result = "x" if self.is_max else f"x * {self._scale()}"
        out.add(f"out(h, left + j, {result}, n...);")
        out.close(";")
        self._cover("window", "0", str(self.tile), self.tile, lanes)

    def _window(self, read: str) -> list[str]:
        lines = []
        for tap in range(self.width.size):
            place = f" + {tap * self.width.dilation}" if tap else ""
            value = read.replace("{}", place)
            lines.append(f"F x = {value};" if tap == 0 else f"x = {self._fold('x', value)};")
        return lines

    def _fold(self, left: str, right: str) -> str:
        return f"max_({left}, {right})" if self.is_max else f"{left} + {right}"

    # -- averages ----------------------------------------------------------------------------------

    def _counts(self) -> float | None:
        """What every sum is multiplied by, where it is the same everywhere."""
        if self.is_max:
            return 1.0
        divisor = int(self.parameters["divisor"])
        if divisor:
            return 1.0 / divisor
        padded = bool(self.parameters["count_padding"])
        found = [set(window.counts(padded)) for window in (self.depth, self.height, self.width)]
        return 1.0 / math.prod(counts.pop() for counts in found) if all(len(c) == 1 for c in found) else None

    def _scale(self) -> str:
        return "load<F>(scale + left + j, n...)" if self.counts is None else literal(self.counts)

    def _widths(self) -> None:
        """Counts per column, where they differ."""
        if self.is_max or self.counts is not None:
            return
        counts = self.width.counts(bool(self.parameters["count_padding"]))
        runs: list[tuple[int, int]] = []
        for count in counts:
            runs = (
                [*runs[:-1], (count, runs[-1][1] + 1)]
                if runs and runs[-1][0] == count
                else [*runs, (count, 1)]
            )
        self.out.add(f"int across[{len(counts)}], *filled = across;")
        self.out.add(*(f"filled = std::fill_n(filled, {times}, {count});" for count, times in runs))

    def _row_scale(self) -> None:
        """Reciprocals of the counts of this row; they change only at the border."""
        padded = bool(self.parameters["count_padding"])
        terms = []
        for window, first in ((self.depth, "front"), (self.height, "top")):
            low, high = (
                (f"-{window.padding}L", window.length + window.padding) if padded else ("0L", window.length)
            )
            terms.append(f"(std::min({first} + {window.size}, {high}L) - std::max({first}, {low}))")
        self.out.add(
            f"if (const long rows = {' * '.join(terms)}; rows != scaled) {{",
            f"  for (int i = 0; i < {self.width.results}; ++i) scale[i] = 1.0f / (rows * across[i]);",
            "  scaled = rows;",
            "}",
        )


def _first(window: Window, index: str) -> str:
    """The first element of a window, perhaps in the padding."""
    text = index if window.stride == 1 else f"{index} * {window.stride}"
    return f"{text} - {window.padding}" if window.padding else text
