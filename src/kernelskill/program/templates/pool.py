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

from kernelskill.program.program import Kernel
from kernelskill.program.region import Region
from kernelskill.program.template import CppFunction
from kernelskill.program.templates.around import Around
from kernelskill.program.templates.averages import Averages
from kernelskill.program.templates.window import Window, first_of, windows

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
    return _Printer(kernel).function()


class _Printer(Around):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, _lanes)
        self.is_max = self.parameters["fold"] == "max"
        self.depth, self.height, self.width = windows(self.parameters, self.reads.region, self.writes.region)
        self.front, self.top = _named(self.depth, "d", "front"), _named(self.height, "h", "top")
        """What the first elements of a window are called, in depth and height; "" where they are the first of all."""
        self.neutral = "-__builtin_inff()" if self.is_max else "0.0f"
        windowed = (self.depth, self.height, self.width)
        self.averages = None if self.is_max else Averages(self.parameters, windowed, self.out)
        # Results are made in tiles whose line fits the cache; the last tile is moved back to be a whole one.
        lanes = self.lanes
        most = max(lanes, (LONGEST_LINE - self.width.span) // self.width.stride // lanes * lanes)
        self.tile = min(self.width.results, most)
        self.tiles = -(-self.width.results // self.tile)
        self.line = (self.tile - 1) * self.width.stride + self.width.span

    def function(self) -> CppFunction:
        out, rows = self.out, self.height.results
        out.add(f"using F = floats{self.lanes};")
        if self.width.stride == 2:
            out.add(f"typedef int I __attribute__((vector_size({4 * self.lanes})));", *self._even())
        if self.averages:
            self.averages.once()
        parts = min(rows, -(-TASKS // (self.rows * self.depth.results)))
        tasks = self.rows * self.depth.results * parts
        self.held = -(-rows // parts)
        """Rows of a plane that a task makes."""
        self.reads.parallel(tasks, self._elements())
        if tasks > 1:
            index = "plane" if tasks == self.rows else "task"
            out.open(f"for (long {index} = 0; {index} < {tasks}; ++{index})")
        self._plane(parts)
        self._line()
        if self.averages:
            self.averages.per_plane(self.held)
        self._lambdas()
        if rows > 1:
            self._open_rows(parts, "task" if tasks == parts else f"task % {parts}")
        self._rows()
        self._tiles()
        if rows > parts:
            out.close()
        if tasks > 1:
            out.close()
        return self.printed()

    def _open_rows(self, parts: int, part: str) -> None:
        """Open the loop over the rows of a part of a plane, if it has more than one."""
        rows = self.height.results
        if parts == rows:
            self.out.add(f"const long h = {part};")
            return
        begin, end = "0", str(rows)
        if parts > 1:
            self.out.add(f"const long part = {part};")
            begin, end = f"{rows} * part / {parts}", f"{rows} * (part + 1) / {parts}"
        self.out.open(f"for (long h = {begin}; h < {end}; ++h)")

    def _even(self) -> list[str]:
        """A lambda that gives every second one of twice a register's elements."""
        places = ", ".join(str(2 * i) for i in range(self.lanes))
        return [
            "auto even = [](const float* p) {",
            f"  return __builtin_shuffle(load<F>(p), load<F>(p + {self.lanes}), I{{{places}}});",
            "};",
        ]

    def _elements(self) -> int:
        area = self.depth.length * self.height.length * self.width.length
        return self.rows * max(area, self.depth.results * self.height.results * self.width.results)

    # -- once per plane ----------------------------------------------------------------------------

    def _plane(self, parts: int) -> None:
        depth, inner = self.depth, self.depth.results * parts
        if self.rows > 1 and inner > 1:
            self.out.add(f"const long plane = task / {inner};")
        if depth.results > 1:
            index = "task" if parts == 1 else f"task / {parts}"
            self.out.add(f"const long d = {index if self.rows == 1 else f'{index} % {depth.results}'};")
        for side in (self.reads, self.writes):
            side.move(side.before, "plane", "_plane")
        if not depth.is_single and not depth.is_in_step:
            self.out.add(f"const long front = {first_of(depth, 'd')};")
        if not depth.is_inside:
            self._taps(depth, self.front, "d")

    def _line(self) -> None:
        width, lanes = self.width, self.lanes
        room = self.line + 3 * lanes
        ahead = -width.padding % lanes
        if ahead:
            self.out.add(
                f"alignas({4 * lanes}) float space[{room + lanes}];", f"float* const line = space + {ahead};"
            )
        else:
            self.out.add(f"alignas({4 * lanes}) float line[{room}];")
        if width.stride > 2:
            self.out.add(f"float folded[{room}];")
        if self.tiles == 1 and not width.is_inside:
            self.out.add(f"for (float& x : {'space' if ahead else 'line'}) x = {self.neutral};")

    def _lambdas(self) -> None:
        read, write = self.reads.walked, self.writes.walked
        known = [self._reach()] if self.tiles == 1 else [self.lanes, self.lanes + 1]
        self.reads.fill(
            *(length if length < self.lanes or self.tiles > 1 else self.lanes for length in known)
        )
        self.writes.fill(min(self.tile, self.lanes))
        self.reads.declare("read", [(read[0], "depth"), (read[1], "height")], read[2])
        self.writes.move([write[0]], "d", "_d")
        self.writes.declare("write", [(write[1], "h")], write[2])

    # -- once per row ------------------------------------------------------------------------------

    def _rows(self) -> None:
        if not self.height.is_single and not self.height.is_in_step:
            self.out.add(f"const long top = {first_of(self.height, 'h')};")
        if not self.height.is_inside:
            self._taps(self.height, self.top, "h")
        if self.averages:
            self.averages.per_row(self.held)

    def _taps(self, window: Window, first: str, letter: str) -> None:
        """The places of the window that lie inside the input, where that is not all of them."""
        step, length, size = window.dilation, window.length, window.size
        low, high = _taps_of(window, letter)
        if not window.begins_inside:
            begin = f"-{first}" if step == 1 else f"({step - 1}L - {first}) / {step}"
            self.out.add(f"const long {low} = {first} < 0 ? {begin} : 0;")
        if not window.ends_inside:
            end = f"{length}L - {first}" if step == 1 else f"({length + step - 1}L - {first}) / {step}"
            least = low if not window.begins_inside else "0L"
            self.out.add(f"const long {high} = std::max({least}, std::min({size}L, {end}));")

    def _tiles(self) -> None:
        out, width = self.out, self.width
        if self.tiles > 1:
            out.open(f"for (long tile = 0; tile < {self.tiles}; ++tile)")
            out.add(
                f"const long left = std::min(tile * {self.tile}L, {width.results - self.tile}L);",
                f"const long first = {first_of(width, 'left')};",
                f"const long begin = std::max(first, 0L), end = std::min(first + {self.line}L, {width.length}L);",
            )
            if not width.is_inside:
                out.add(
                    f"std::fill(line, line + (begin - first), {self.neutral});",
                    f"std::fill(line + (end - first), line + {self.line}, {self.neutral});",
                )
        self._vertical()
        self._horizontal()
        if self.tiles > 1:
            out.close()

    def _reach(self) -> int:
        """Elements of an input row that some window reads."""
        return min(self.width.length, self.line - self.width.padding)

    # -- across the rows of a window ---------------------------------------------------------------

    def _vertical(self) -> None:
        """Fold the rows of the window into the line."""
        out, deep, high = self.out, self.depth, self.height
        known = self._reach() if self.tiles == 1 else None
        whole = " && ".join(
            _is_whole(window, letter) for window, letter in ((deep, "d"), (high, "h")) if not window.is_inside
        )
        unrolled = deep.size * high.size <= UNROLLED
        if unrolled and not whole and known is not None and known % self.lanes == 0:
            self._unroll()
            out.open(f"for (long j = 0; j < {known}; j += {self.lanes})")
            self._fold_rows()
            out.close()
            return
        out.open(f"auto column = [&](long j{self.reads.takes_n})")
        if unrolled and whole:
            out.open(f"if ({whole})")
        if unrolled:
            self._fold_rows()
        if unrolled and whole:
            out.add("return;")
            out.close()
        if whole or not unrolled:
            self._loop_rows()
        out.close(";")
        begin, end = ("0", str(known)) if known is not None else ("begin", "end")
        self._cover("column", begin, end, known)

    def _fold_rows(self) -> None:
        """Fold all rows of the window, written out."""
        deep, high = self.depth, self.height
        taps = [(a * deep.dilation, b * high.dilation) for a in range(deep.size) for b in range(high.size)]
        reads = [self._read(_behind(self.front, a), _behind(self.top, b)) for a, b in taps]
        self._onto_line(self._folded(reads))

    def _loop_rows(self) -> None:
        """Fold those rows of the window that lie inside the input."""
        places = []
        self.out.add(f"F x = F{{}} {self.neutral[0]} {self.neutral[1:]};" if self.is_max else "F x{};")
        loops = 0
        for window, first, index, letter in (
            (self.depth, self.front, "a", "d"),
            (self.height, self.top, "b", "h"),
        ):
            low, high = _taps_of(window, letter)
            if window.size == 1 and window.is_inside:
                places.append(first or "0")
                continue
            step = index if window.dilation == 1 else f"{index} * {window.dilation}"
            places.append(f"{first} + {step}" if first else step)
            self.out.add(f"{'  ' * loops}for (long {index} = {low}; {index} < {high}; ++{index})")
            loops += 1
        self.out.add(f"{'  ' * loops}{self._fold('x', self._read(*places))}")
        self._onto_line("x")

    def _read(self, depth: str, height: str) -> str:
        return self.reads.call(
            [depth, height], "j", *([self.reads.n.removeprefix(", ")] if self.reads.n else [])
        )

    def _onto_line(self, value: str) -> None:
        padding = self.width.padding
        place = "line + (j - first)" if self.tiles > 1 else f"line + j + {padding}" if padding else "line + j"
        self.out.add(f"store({place}, {value}{self.reads.n});")

    def _cover(self, call: str, begin: str, end: str, known: int | None) -> None:
        """Calls over a stretch; the last register lies over the one before it where the stretch is long enough."""
        lanes = self.lanes
        if known is not None and known < lanes:
            self.out.add(f"{call}({begin}, {known});")
            return
        self._unroll()
        self.out.add(f"for (long j = {begin}; j + {lanes} <= {end}; j += {lanes}) {call}(j);")
        if known is None:
            self.out.add(
                f"if (end - begin < {lanes}) {call}({begin}, {end} - {begin});",
                f"else if ((end - begin) % {lanes}) {call}({end} - {lanes});",
            )
        elif known % lanes:
            self.out.add(f"{call}({known - lanes});")

    def _unroll(self) -> None:
        if self.schedule.unroll > 1:
            self.out.add(f"#pragma GCC unroll {self.schedule.unroll}")

    # -- along the line ----------------------------------------------------------------------------

    def _horizontal(self) -> None:
        """Fold the windows along the line, and hand the results on."""
        out, width, lanes = self.out, self.width, self.lanes
        if width.stride > 2:
            last = self.line - width.span + 1
            out.open(f"for (long j = 0; j < {last}; j += {lanes})")
            out.add(f"store(folded + j, {self._window('load<F>(line + j{})')});")
            out.close()
        if self.tile % lanes == 0:
            self._unroll()
            out.open(f"for (long j = 0; j < {self.tile}; j += {lanes})")
            self._results()
            out.close()
            return
        out.open(f"auto window = [&](long j{self.writes.takes_n})")
        self._results()
        out.close(";")
        self._cover("window", "0", str(self.tile), self.tile)

    def _results(self) -> None:
        """Print one register of results."""
        width, lanes = self.width, self.lanes
        if width.stride == 1:
            value = self._window("load<F>(line + j{})")
        elif width.stride == 2:
            value = self._window("even(line + 2 * j{})")
        else:
            value = "x"
            self.out.add(
                "F x;", f"for (int i = 0; i < {lanes}; ++i) x[i] = folded[(j + i) * {width.stride}];"
            )
        place = "left + j" if self.tiles > 1 else "j"
        if self.averages and self.averages.factor != 1.0:
            value = f"{value if value == 'x' else f'({value})'} * {self.averages.at(place, self.writes.n)}"
        n = [self.writes.n.removeprefix(", ")] if self.writes.n else []
        self.out.add(f"{self.writes.call(['h'], place, value, *n)};")

    def _window(self, read: str) -> str:
        """The fold of one register of windows, or the register `x` that it is printed into."""
        taps = [tap * self.width.dilation for tap in range(self.width.size)]
        return self._folded([read.replace("{}", f" + {tap}" if tap else "") for tap in taps])

    def _folded(self, values: list[str]) -> str:
        """The fold of several registers: as they are where there is one, else by way of the register `x`."""
        if len(values) == 1:
            return values[0]
        self.out.add(f"F x = {values[0]};", *(self._fold("x", value) for value in values[1:]))
        return "x"

    def _fold(self, total: str, value: str) -> str:
        return f"{total} = max_({total}, {value});" if self.is_max else f"{total} += {value};"


def _named(window: Window, index: str, first: str) -> str:
    """What the first element of a window is called."""
    return "" if window.is_single else index if window.is_in_step else first


def _taps_of(window: Window, letter: str) -> tuple[str, str]:
    """The first place of a window that lies inside the input, and the one behind the last."""
    low = "0" if window.begins_inside else f"{letter}0"
    return low, str(window.size) if window.ends_inside else f"{letter}1"


def _is_whole(window: Window, letter: str) -> str:
    """Whether all of a window lies inside the input, which some do not."""
    low, high = _taps_of(window, letter)
    if window.begins_inside or window.ends_inside:
        return f"{high} == {window.size}" if window.begins_inside else f"{low} == 0"
    return f"{high} - {low} == {window.size}"


def _behind(first: str, by: int) -> str:
    """A place some elements behind another one, which is the first of all if it has no name."""
    return str(by) if not first else f"{first} + {by}" if by else first


def _lanes(most: int, after: Region) -> int:
    """Floats in a register: no more than there are results in a row."""
    return min(most, max(4, 1 << (after.axes[-1].size - 1).bit_length()))
