"""How a kernel is run: what micro-edits change, and nothing of what it computes."""

from __future__ import annotations

from typing import Literal

from kernelskill.records import Record


class Schedule(Record):
    """Tunable parameters of one kernel. Every combination computes the same values."""

    threads: int = 0
    """Threads of the parallel loop; 0 = all that the caller gives."""
    vector_bits: Literal[128, 256, 512] = 256
    """Width of a vector register. The widest is not the default: some processors slow down when they use it."""
    unroll: int = 1
    """Vectors of independent elements in flight in a map loop."""
    accumulators: int = 2
    """Independent vector accumulators of a reduction."""
    block: int = 256
    """Elements of the inner axis kept in accumulators at a time (strided kernels); a multiple of the vector."""
    nontemporal: bool = False
    """Stores bypass the cache (only where the output is contiguous and aligned)."""
    split: int = 0
    """Parts that a row is split into; 0 = as many as keep all threads busy, 1 = never split."""
    grain: int = 16384
    """Smallest number of elements worth a thread of its own."""

    @property
    def lanes(self) -> int:
        """Floats in a vector."""
        return self.vector_bits // 32
