"""Pooling along rows whose lanes each make four neighbouring results from aligned accesses of four elements.

Windows of neighbouring results overlap, and start anywhere. One result a lane takes an access for every element of its
window, each across two lines of the first-level cache. Four results need little more of the row than one: a lane reads
that in whole accesses of four elements, and folds the windows in its registers.
"""

from __future__ import annotations

from kernelskill.program.program import Kernel
from kernelskill.program.triton.addresses import up_to_power_of_two
from kernelskill.program.triton.pooling import LETTERS, Pooling
from kernelskill.program.triton.text import GpuFunction

WIDTH = 4
"""Results of a lane, and elements of an access: 16 bytes in float32."""
BLOCK = 256
"""Lanes of a program, one a thread."""
LEAST_SIZE = 3
"""Elements of a window below which there is little to share."""
MOST_ACCESSES = 16
"""Accesses of a lane, all of them held in registers."""
LARGEST_STRIDE = 2


def quads_function(kernel: Kernel) -> GpuFunction | None:
    """The launch of a pooling along rows by accesses of four elements; None where little would be gained.

    Raises:
        ProgramError: its parameters are not those of a pooling.
    """
    quads = _Quads(kernel)
    return quads.function() if quads.pays else None


class _Quads(Pooling):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, LETTERS)
        window = self.windows["w"]
        self.start = -(-window.padding // WIDTH) * WIDTH
        """Elements before the row at which the first access begins."""
        self.lead = self.start - window.padding
        """Elements of that access before the first window."""
        last = self.lead + (WIDTH - 1) * window.stride + window.span - 1
        self.accesses = last // WIDTH + 1

    @property
    def lanes(self) -> int:
        """Groups of four results along a row."""
        return -(-self.windows["w"].results // WIDTH)

    @property
    def pays(self) -> bool:
        """Whether rows can be read in whole accesses, and fewer of them."""
        window = self.windows["w"]
        if any(self.windows[letter].size > 1 or self.windows[letter].results > 1 for letter in "dh"):
            return False
        fewer = window.size >= LEAST_SIZE and self.accesses <= min(window.size, MOST_ACCESSES)
        return fewer and window.stride <= LARGEST_STRIDE and self.lanes >= BLOCK and self._is_aligned()

    def _is_aligned(self) -> bool:
        """Whether an access lies within a row, and all rows begin at a whole one; nothing is computed before."""
        if [op.fn for op in self.first.ops] != ["load"] or self.windows["w"].length % WIDTH:
            return False
        operand = self._operand(self.first.ops[0], 0)
        walked = self._walked[0][-1]
        far = [step for axis, step in enumerate(operand.strides) if axis != walked]
        return operand.strides[walked] == 1 and not any(step % WIDTH for step in (*far, operand.offset))

    def _block(self) -> int:
        lanes = -(-self.windows["w"].results // WIDTH)
        return self.kernel.schedule.gpu.block or min(BLOCK, up_to_power_of_two(lanes))

    def _warps(self) -> int:
        return max(1, self.block // 32)

    def _begin(self) -> int:
        out, blocks = self.out, -(-self.lanes // self.block)
        program = f"{self.program} % {blocks}" if self.planes > 1 and blocks > 1 else self.program
        if self.planes > 1:
            out.add(f"plane = {self.program}" + (f" // {blocks}" if blocks > 1 else ""))
        first = f"{program} * {self.block} + " if blocks > 1 else ""
        out.add(f"lane = {first}tl.arange(0, {self.block})")
        out.add(f"of_four = tl.arange(0, {WIDTH})[None, :]")
        out.add(f"w = lane[:, None] * {WIDTH} + of_four")
        self.masked = blocks * self.block * WIDTH != self.windows["w"].results
        if self.masked:
            out.add(f"inside = w < {self.windows['w'].results}")
        self.at = {"d": "0", "h": "0", "w": "w"}
        return self.planes * blocks

    def _results(self) -> None:
        self._read()
        window, out = self.windows["w"], self.out
        out.add("folded = ()")
        out.open(f"for result in tl.static_range({WIDTH}):")
        begin = f"result * {window.stride} + {self.lead}"
        out.add(f"fold = row[{begin}]")
        out.open(f"for k in tl.static_range(1, {window.size}):")
        self._fold("fold", f"row[{begin} + k * {window.dilation}]")
        out.close()
        out.add("folded = folded + (fold,)")
        out.close()
        out.add("pairs = tl.join(tl.join(folded[0], folded[2]), tl.join(folded[1], folded[3]))")
        out.add(f"{self.value} = tl.reshape(pairs, [{self.block}, {WIDTH}])")
        if not self.is_max:
            self._divide()
        self._store(self._after())

    def _read(self) -> None:
        """Print the reading of all elements that a lane needs, one after the other."""
        window, out, op = self.windows["w"], self.out, self.first.ops[0]
        begin = f"lane * {WIDTH * window.stride}" + (f" - {self.start}" if self.start else "")
        out.add("row = ()")
        out.open(f"for step in tl.static_range({self.accesses}):")
        out.add(f"at = {begin} + step * {WIDTH}")
        inside = f"at < {window.length}" if not self.start else f"(at >= 0) & (at < {window.length})"
        out.add(f"in_row = ({inside})[:, None]")
        other = f", other={self.neutral}"
        self._load(op, 0, ("0", "0", "(at[:, None] + of_four)"), "in_row", other)
        out.add(
            f"even, odd = tl.split(tl.reshape({op.name}, [{self.block}, 2, 2]))",
            "first, third = tl.split(even)",
            "second, fourth = tl.split(odd)",
            "row = row + (first, second, third, fourth)",
        )
        out.close()
