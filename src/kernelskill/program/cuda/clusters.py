"""Which rows a cluster of blocks can hold in its shared memory, and how they are parted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel
from kernelskill.program.region import Operand, Region, Stage
from kernelskill.program.triton.softmax import joined
from kernelskill.records import DTYPE_BYTES

CAPABILITY = 90
"""Least compute capability with clusters (CUDA C++ programming guide, thread block clusters)."""
SIZES = (2, 4, 8, 16)
"""Blocks of a cluster; more than 8 is a feature of each GPU (H100, H200 and B200 have it)."""
PORTABLE = 8
"""Largest cluster that every GPU with clusters runs."""
SHARED_BYTES = 220 << 10
"""Dynamic shared memory that a block may take, of 227 KB, with room for the slots of folds."""
BESIDE_BYTES = 110 << 10
"""Up to this, two blocks fit a multiprocessor: one loads while the other computes."""
MOST_THREADS = 1024
"""Of a multiprocessor, so that each may have 64 registers."""
LONGEST_BLOCK = 16384
"""Shorter rows are kept by a single block in registers."""
PACK_BYTES = 16
"""Widest access of a thread."""


@dataclass(frozen=True)
class ClusterPlan:
    """How a row is shared out among the blocks of a cluster."""

    parts: int
    """Blocks of a cluster."""
    lanes: int
    """Elements of an access where all addresses are aligned."""
    stretch: int
    """Elements of a row that a block holds; a multiple of `lanes`."""
    threads: int
    kept: tuple[str, ...]
    """Inputs that are read once and stay in shared memory for the walks after the first."""
    packed: tuple[str, ...]
    """Operands whose elements lie one after the other along the row."""
    offsets: tuple[int, ...]
    """Bytes from the start of the shared memory, per kept input."""
    shared_bytes: int

    @property
    def beside(self) -> int:
        """Blocks that a multiprocessor is to hold at once."""
        return 2 if self.shared_bytes <= BESIDE_BYTES and self.threads <= MOST_THREADS // 2 else 1


def cluster_plan(kernel: Kernel, parts: int) -> ClusterPlan:
    """The plan for a kernel with clusters of `parts` blocks.

    Raises:
        ProgramError: its rows gain nothing from a cluster, or do not fit one.
    """
    region = joined(kernel.region) if kernel.region else None
    if region is None or region.kind != "row" or region.passes < 2 or region.total:
        raise ProgramError(f"kernel {kernel.name} does not walk its rows more than once")
    if parts not in SIZES:
        raise ProgramError(
            f"kernel {kernel.name}: a cluster has {', '.join(map(str, SIZES))} blocks, not {parts}"
        )
    if folds := {item.fold for stage in region.stages for item in stage.reductions} & {"argmax", "argmin"}:
        raise ProgramError(f"kernel {kernel.name}: {folds.pop()} is not folded across a cluster")
    walked = [stage for stage in region.stages if stage.kind in {"reduce", "map"}]
    packed = tuple(item.name for item in (*region.inputs, *region.outputs) if _is_packed(region, item))
    kept = tuple(item.name for item in region.inputs if item.name in packed and _walks(item.name, walked) > 1)
    if not kept:
        raise ProgramError(f"kernel {kernel.name} reads nothing twice that lies one after the other")
    sizes = {item.name: DTYPE_BYTES[item.dtype] for item in (*region.inputs, *region.outputs)}
    lanes = _lanes(region, packed, max(sizes[name] for name in packed))
    stretch = -(-region.row_length // (parts * lanes)) * lanes
    offsets, total = [], 0
    for name in kept:
        offsets.append(total)
        total += -(-stretch * sizes[name] // PACK_BYTES) * PACK_BYTES
    if total > SHARED_BYTES:
        raise ProgramError(f"kernel {kernel.name}: a block would hold {total} bytes of a row, more than fit")
    if region.rows * parts > 2**31 - 1 or (parts - 1) * stretch >= region.row_length:
        raise ProgramError(f"kernel {kernel.name}: its rows cannot be shared out among {parts} blocks each")
    warps = kernel.schedule.gpu.num_warps or (16 if total <= BESIDE_BYTES else 32)
    return ClusterPlan(parts, lanes, stretch, 32 * warps, kept, packed, tuple(offsets), total)


def fitting(kernel: Kernel) -> tuple[int, ...]:
    """Sizes of clusters that hold a row of a kernel, best guess first.

    The smallest portable one that leaves room for two blocks on a multiprocessor; else the largest portable one; larger
    ones last: a barrier of sixteen blocks costs more than a second block gains (H200, softmax of 393216: 8 blocks take
    3.47 ms, 16 take 3.83 ms).
    """
    plans = []
    for parts in SIZES:
        try:
            plans.append(cluster_plan(kernel, parts))
        except ProgramError:
            continue
    portable = [plan for plan in plans if plan.parts <= PORTABLE]
    beside = [plan.parts for plan in portable if plan.shared_bytes <= BESIDE_BYTES]
    alone = [plan.parts for plan in portable if plan.shared_bytes > BESIDE_BYTES]
    return (*beside, *reversed(alone), *(plan.parts for plan in plans if plan.parts > PORTABLE))


def _is_packed(region: Region, operand: Operand) -> bool:
    """Whether the elements of a row lie one after the other."""
    step = 1
    for axis, stride in reversed(list(zip(region.axes, operand.strides, strict=True))):
        if axis.role != "reduce" or axis.size == 1:
            continue
        if stride != step:
            return False
        step *= axis.size
    return step > 1


def _walks(name: str, stages: list[Stage]) -> int:
    return sum(any(op.fn == "load" and op.args[0] == name for op in stage.ops) for stage in stages)


def _lanes(region: Region, packed: tuple[str, ...], widest: int) -> int:
    """Elements of one access, so that every row and every run of the innermost axis begins at a whole access."""
    inner = next(axis.size for axis in reversed(region.axes) if axis.role == "reduce" and axis.size > 1)
    steps = [inner]
    for operand in (*region.inputs, *region.outputs):
        if operand.name in packed:
            outer = [
                stride
                for axis, stride in zip(region.axes, operand.strides, strict=True)
                if axis.role == "parallel" and axis.size > 1
            ]
            steps += [operand.offset, *outer]
    lanes = PACK_BYTES // widest
    return math.gcd(lanes, *steps)
