"""How a kernel is run: what micro-edits change, and nothing of what it computes."""

from __future__ import annotations

from typing import Literal

from kernelskill.records import Record


class GpuSchedule(Record):
    """Tunable parameters of one kernel on a GPU; 0 = what the printer derives from the shape.

    Every combination computes the same values, up to the order in which sums are added.
    """

    block: int = 0
    """Elements that a program holds at a time along the walked axis (all of them, in a map); a power of two."""
    rows: int = 0
    """Rows that a program folds side by side; a power of two."""
    num_warps: int = 0
    """Warps of a program: 1, 2, 4, 8, 16 or 32."""
    num_stages: int = 0
    """Loads in flight ahead of the loop over a row."""
    split: int = 0
    """Programs that share a row; 1 = never split."""
    cluster: int = 0
    """Blocks of a cluster that holds a row on chip, in CUDA C++; 0 = a kernel in Triton."""


class Schedule(Record):
    """Tunable parameters of one kernel. Every combination computes the same values."""

    gpu: GpuSchedule = GpuSchedule()
    """How the CUDA target runs it; the fields below are the CPU's."""

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
