"""What the sums of an average pooling are multiplied by: one number, or a table where windows reach over the border."""

from __future__ import annotations

import math

from kernelskill.program.lines import Lines
from kernelskill.program.scalar import literal
from kernelskill.program.templates.window import Window
from kernelskill.records import Json


class Averages:
    """Prints the factors of the results in one row.

    Args:
        parameters: of the pooling.
        windows: depth, height and width.
        out: where it is printed.
    """

    def __init__(
        self, parameters: dict[str, Json], windows: tuple[Window, Window, Window], out: Lines
    ) -> None:
        self._divisor = int(parameters["divisor"])
        self._padded = bool(parameters["count_padding"])
        self._windows = windows
        self._out = out
        *rows, self._width = windows
        self._rows = [
            (window, index if window.is_in_step else first, window.counts(self._padded))
            for window, index, first in zip(rows, "dh", ("front", "top"), strict=True)
        ]
        self.factor = self._same()
        """What every sum is multiplied by; None where it differs."""

    def _same(self) -> float | None:
        if self._divisor:
            return 1.0 / self._divisor
        found = [set(window.counts(self._padded)) for window in self._windows]
        return 1.0 / math.prod(counts.pop() for counts in found) if all(len(c) == 1 for c in found) else None

    def at(self, place: str, n: str) -> str:
        """The factor of a register of results; `n` is the further argument of loads that are not full."""
        return f"load<F>(scale + {place}{n})" if self.factor is None else literal(self.factor)

    def once(self) -> None:
        """Print counts per column, where they differ."""
        if self.factor is not None:
            return
        runs: list[tuple[int, int]] = []
        for count in self._width.counts(self._padded):
            again = bool(runs) and runs[-1][0] == count
            runs = [*runs[:-1], (count, runs[-1][1] + 1)] if again else [*runs, (count, 1)]
        self._out.add(f"int across[{self._width.results}], *filled = across;")
        self._out.add(*(f"filled = std::fill_n(filled, {times}, {count});" for count, times in runs))

    def per_plane(self, rows: int) -> None:
        """Print the table of a plane's rows, which is filled at once where all count alike."""
        if self.factor is not None:
            return
        self._out.add(f"float scale[{self._width.results}];")
        if self._differing():
            self._out.add(*(["long scaled = 0;"] if rows > 1 else []))
            return
        same = math.prod(counts[0] for _, _, counts in self._rows)
        count = "across[i]" if same == 1 else f"({same} * across[i])"
        self._out.add(f"for (int i = 0; i < {self._width.results}; ++i) scale[i] = 1.0f / {count};")

    def per_row(self, rows: int) -> None:
        """Print what fills the table anew where a row counts differently from the one before: at the border only."""
        if self.factor is not None or not self._differing():
            return
        terms = []
        for window, first in self._differing():
            end = window.length + window.padding if self._padded else window.length
            begin = -window.padding if self._padded else 0
            terms.append(f"(std::min({first} + {window.size}, {end}L) - std::max({first}, {begin}L))")
        same = math.prod(counts[0] for _, _, counts in self._rows if len(set(counts)) == 1)
        terms += [str(same)] if same > 1 else []
        fill = f"for (int i = 0; i < {self._width.results}; ++i) scale[i] = 1.0f / (rows * across[i]);"
        count = " * ".join(terms) if terms[1:] else terms[0][1:-1]
        if rows == 1:
            self._out.add(f"const long rows = {count};", fill)
            return
        self._out.add(
            f"if (const long rows = {count}; rows != scaled) {{",
            f"  {fill}",
            "  scaled = rows;",
            "}",
        )

    def _differing(self) -> list[tuple[Window, str]]:
        """Depth and height where windows count different numbers of rows, with the names of their first ones."""
        return [(window, first) for window, first, counts in self._rows if len(set(counts)) > 1]
