"""Pooling that walks: a program makes a strip of rows of results, and folds every row of the input once.

Windows of neighbouring rows share all but one of their rows. So a program goes down the rows that a strip of results
reads and folds each along the width (and what else the window spans); a result is a fold of these folds, which stay in
registers. A window of k x k costs about k loads of the first-level cache instead of k * k. All loads come before all
stores, so that many are in flight. Volumes are walked along the height or the depth, whichever saves more.

`rows` of the schedule is the height of a strip (1: every result folds its own window), `block` its lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelskill.program.program import Kernel
from kernelskill.program.schedule import GpuSchedule
from kernelskill.program.templates.window import Window, first_of
from kernelskill.program.triton.addresses import is_wide, up_to_power_of_two
from kernelskill.program.triton.pooling import LETTERS, Pooling, behind
from kernelskill.program.triton.text import GpuFunction

BLOCK = 128
"""Lanes of a program."""
MOST_LANES = 1024
"""One a thread: with two, Triton would lay out aligned loads in pairs and shuffle the others to match."""
STRIP = 16
"""Rows of results that a program makes; the k - 1 rows above them are read once more."""
LEAST_STRIP = 8
RESIDENT = 132 * 2048
"""Threads that an H200 holds at a time."""
MOST_FOLDS = 64
"""Folds of rows that a lane keeps in registers."""
LOADS = 256
"""Loads of a lane, all of them written out, beyond which strips are made shorter: compiling them takes seconds."""
MOST_LOADS = 384
"""Loads of a lane with which programs still walk."""
GAIN = 1.5
"""Loads saved, as a ratio, below which programs don't walk."""


@dataclass(frozen=True)
class Walk:
    """How programs go along one dimension of a pooling."""

    letter: str
    window: Window
    most: int
    """Results that a program may make along it."""

    @property
    def strips(self) -> int:
        """Programs side by side along it."""
        return -(-self.window.results // self.most)

    @property
    def strip(self) -> int:
        """Results of each of these programs, which are as alike as they can be."""
        return -(-self.window.results // self.strips)

    @property
    def step(self) -> int:
        """Elements from one place of the walk to the next."""
        return math.gcd(self.window.stride, self.window.dilation)

    @property
    def stride(self) -> int:
        """Steps from one result to the next."""
        return self.window.stride // self.step

    @property
    def dilation(self) -> int:
        """Steps from one element of a window to the next."""
        return self.window.dilation // self.step

    @property
    def reach(self) -> int:
        """Steps from the first to the last element of a window."""
        return (self.window.size - 1) * self.dilation

    @property
    def steps(self) -> int:
        """Places that a program visits."""
        return (self.strip - 1) * self.stride + self.reach + 1

    @property
    def gain(self) -> float:
        """Loads without the walk for each load with it."""
        return self.window.size * self.strip / self.steps


def sliding_function(kernel: Kernel) -> GpuFunction | None:
    """The launch of a pooling by programs that walk; None where too little would be gained.

    Raises:
        ProgramError: its parameters are not those of a pooling.
    """
    walks = [walk for walk in (_Sliding(kernel, letter) for letter in "hd") if walk.pays]
    return max(walks, key=lambda item: item.walk.gain).function() if walks else None


class _Sliding(Pooling):
    def __init__(self, kernel: Kernel, letter: str) -> None:
        super().__init__(kernel, LETTERS.replace(letter, ""))
        self.held = math.prod(self.windows[letter].size for letter in self.letters)
        """Elements of a window that lie in one row."""
        self.walk = self._chosen(letter, kernel.schedule.gpu)
        self.unrolled = MOST_LOADS

    def _chosen(self, letter: str, schedule: GpuSchedule) -> Walk:
        window, lanes = self.windows[letter], self.planes * self.area
        walk = Walk(letter, window, schedule.rows or STRIP)
        while not schedule.rows and walk.most > LEAST_STRIP:
            if walk.strips * lanes >= RESIDENT and walk.steps * self.held <= LOADS:
                break
            walk = Walk(letter, window, walk.most // 2)
        return walk

    @property
    def pays(self) -> bool:
        """Whether the walk saves enough, and is neither too long a text nor too many registers."""
        walk = self.walk
        fits = walk.steps <= MOST_FOLDS and walk.steps * self.held <= MOST_LOADS and self.block <= MOST_LANES
        # A step is an int, so places in a plane have to be.
        return fits and walk.gain >= GAIN and not is_wide(self.before, self._walked[0])

    def _block(self) -> int:
        return self.kernel.schedule.gpu.block or min(BLOCK, up_to_power_of_two(self.area * self.planes))

    def _warps(self) -> int:
        return max(1, self.block // 32)

    def _begin(self) -> int:
        walk = self.walk
        if walk.strips > 1:
            # The last strip is moved back to be a whole one; what two programs make, they make alike.
            first, last = f"{self.program} % {walk.strips} * {walk.strip}", walk.window.results - walk.strip
            ends = walk.window.results % walk.strip == 0
            self.out.add(f"start = {first}" if ends else f"start = tl.minimum({first}, {last})")
        return self._places(walk.strips)

    def _results(self) -> None:
        self._fold_rows()
        if any(op.fn == "load" and self._walks(op, 1) for op in self.last.ops):
            self.out.add("tile = ()")
            self._open_strip()
            self._fold_parts()
            self.out.add(f"tile = tile + ({self._after()},)")
            self.out.close()
            self._open_strip()
            self._store("tile[step]")
        else:
            self._open_strip()
            self._fold_parts()
            self._store(self._after())
        self.out.close()

    def _fold_rows(self) -> None:
        """Print the folds of all rows that the strip reads."""
        walk, out = self.walk, self.out
        edges: list[str] = []
        begin = first_of(walk.window, "start") if walk.strips > 1 else str(-walk.window.padding)
        out.add("parts = ()")
        out.open(f"for step in tl.static_range({walk.steps}):")
        place = self._place(walk.letter, behind(begin, "step", walk.step), edges)
        self._full("part")
        self._fold_window("part", self.letters, {walk.letter: place}, edges)
        out.add("parts = parts + (part,)")
        out.close()

    def _open_strip(self) -> None:
        """Open a loop over the results of the strip."""
        self.out.open(f"for step in tl.static_range({self.walk.strip}):")
        self.out.add(f"{self.walk.letter} = {'start + step' if self.walk.strips > 1 else 'step'}")

    def _fold_parts(self) -> None:
        """Print a result: what the rows of its window folded into."""
        walk = self.walk
        first = behind("0", "step", walk.stride)
        self.out.add(f"{self.value} = parts[{first}]")
        self.out.open(f"for k in tl.static_range(1, {walk.window.size}):")
        self._fold(self.value, f"parts[{behind(first, 'k', walk.dilation)}]")
        self.out.close()
        if not self.is_max:
            self._divide()
