"""Maximum and average pooling: every lane folds the window of one result; overlapping windows meet in the cache.

Where windows overlap from row to row, `sliding.py` prints programs that walk down a strip of them instead; where they
overlap along a row, `quads.py` prints lanes that make four results each.
"""

from __future__ import annotations

import math

from kernelskill.program.program import Kernel
from kernelskill.program.triton.addresses import up_to_power_of_two
from kernelskill.program.triton.pooling import LETTERS, Pooling
from kernelskill.program.triton.quads import quads_function
from kernelskill.program.triton.sliding import sliding_function
from kernelskill.program.triton.text import GpuFunction

BLOCK = 1024
"""Results of a program whose windows lie close together."""
APART = 128
"""Results of a program whose windows are large and strided: one a thread."""
FEW = 4
"""Elements of a window that is small."""


def pool_function(kernel: Kernel) -> GpuFunction:
    """The launch of a pooling.

    Raises:
        ProgramError: its parameters are not those of a pooling.
    """
    return sliding_function(kernel) or quads_function(kernel) or _Direct(kernel, LETTERS).function()


class _Direct(Pooling):
    def _block(self) -> int:
        given = self.kernel.schedule.gpu.block
        held = math.prod(window.size for window in self.windows.values())
        usual = BLOCK if self.windows["w"].stride == 1 else BLOCK // 2 if held <= FEW else APART
        return given or min(usual, up_to_power_of_two(self.area * self.planes))

    def _warps(self) -> int:
        return max(1, min(4, self.block // 32))

    def _begin(self) -> int:
        return self._places()

    def _results(self) -> None:
        self._full(self.value)
        self._fold_window(self.value, self.letters, {}, ())
        if not self.is_max:
            self._divide()
        self._store(self._after())
