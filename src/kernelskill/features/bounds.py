"""What a kernel's time is spent on, told from hardware counters, or beforehand from its work and its plan.

By the clock that is `kernel_facts.measured_facts`; the three use the same words.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelskill.features.kernel_facts import BRIEF_US, NEAR_CEILING, Load, plain_pipes
from kernelskill.program import Kernel
from kernelskill.program.triton.plan import BUSY, row_plan
from kernelskill.records import Ceilings, Scalar

FULL_WARPS = 8 * BUSY
"""Warps that fill an H200; smaller chips take fewer."""
THIN = 0.1
"""Share of them below which too little is in flight for any ceiling to be reached."""


def fill_ratio(kernel: Kernel, warps: Scalar = None) -> float | None:
    """Warps that a kernel over rows brings to a GPU, over those that fill it; None for other kernels.

    Args:
        kernel: Whose plan is read.
        warps: Of one program as compiled; None: as planned.
    """
    region = kernel.region
    if region is None or region.is_map:
        return None
    plan = row_plan(region, kernel.schedule.gpu)
    inner = region.axes[-1].size
    beside = {"line": region.rows, "wide": -(-region.rows // plan.rows)}
    across = -(-inner // plan.rows) * max(1, region.rows // inner)
    programs = beside.get(plan.shape, across) * plan.parts
    return programs * (warps if isinstance(warps, int) else plan.warps) / FULL_WARPS


ISSUED = 8
"""Instructions that a multiprocessor issues in the time of a special function: 4 schedulers of 32 lanes over 16 results
a cycle, compute capability 7.0 to 10.0 (CUDA C++ programming guide, arithmetic throughput)."""


def issue_us(code: Mapping[str, Scalar], load: Load, ceilings: Ceilings) -> float | None:
    """Least time of a map on a GPU to issue its instructions, index arithmetic among them.

    Each thread runs each of them once and stores its elements once, so the bytes written tell how many threads there
    are. None where loops hide how often they run, or where there is no PTX.

    Args:
        code: `ptx.code_facts` of its function.
        load: What it moves and computes.
        ceilings: Of the machine that it is for.
    """
    instructions, stored = code.get("instructions"), code.get("stored_bytes")
    if not isinstance(instructions, int) or not isinstance(stored, int) or not stored or code.get("loops"):
        return None
    return instructions * (load.written_bytes / stored) / (ISSUED * ceilings.exp_gops) / 1e3


def waves_ratio(fill: float | None, occupancy: float | None) -> float | None:
    """Times that a launch fills the chip with the warps that fit it; None where its plan or its code is not known.

    Args:
        fill: `fill_ratio`.
        occupancy: `occupancy_ratio`.
    """
    return fill / occupancy if fill is not None and occupancy else None


def expected_bound(
    load: Load,
    overhead_us: float,
    ceilings: Ceilings,
    fill: float | None = None,
    issued_us: float | None = None,
) -> str:
    """What one call takes longest for, by what is known without running it.

    Args:
        load: What it moves and computes.
        overhead_us: `launch_us` of the kernel.
        ceilings: Of the machine that it is for.
        fill: `fill_ratio` on a GPU.
        issued_us: `issue_us` on a GPU.
    """
    moved = ceilings.traffic_us(load.read_bytes, load.written_bytes)
    arithmetic = plain_pipes(ceilings) * load.flops / ceilings.fp32_gflops
    computed = max(load.dear_us(ceilings) + arithmetic / 1e3, issued_us or 0.0)
    if overhead_us >= max(moved, computed):
        return "overhead"
    if fill is not None and fill < THIN:
        return "latency"
    return "memory" if moved >= computed else "compute"


def counted_facts(
    counted: Mapping[str, Scalar], load: Load | None, *, is_map: bool = False
) -> dict[str, Scalar]:
    """What hardware counters say of one kernel.

    Args:
        counted: facts by name, as a profile has them.
        load: What its call moves; None where that is not known.
        is_map: Whether its elements are independent of each other.
    """
    moved = counted.get("dram_bytes")
    ratio = (
        moved / load.moved_bytes if load and load.moved_bytes and isinstance(moved, (int, float)) else None
    )
    return {**counted, "counted_traffic_ratio": ratio, "counted_bound": _counted_bound(counted, is_map)}


COLD_US = 1.7
"""What a launch takes longer under ncu, which empties the caches of data and of instructions before each: 1.3 to 1.7 us
for launches of 0.8 to 3.7 us on an H200."""


def _counted_bound(counted: Mapping[str, Scalar], is_map: bool) -> str | None:
    """By the busiest part of the chip; None where a counter is missing. Elements of a map wait for nothing but it.

    Memory is all of its levels, as in ncu's own speed of light. The first one is counted while a multiprocessor is
    active, so it is taken for no more than the share of the chip that the launch is sure to fill. So are the slots in
    which schedulers issue: a product whose tiles come from shared memory keeps both busy, and is bound by what is
    busier on the same measure.
    """
    names = (
        "counted_us",
        "counted_launches",
        "dram_throughput_pct",
        "l2_throughput_pct",
        "sm_throughput_pct",
    )
    values = [counted.get(name) for name in names]
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    if len(numbers) < len(names):
        return None
    time_us, launches, dram, cache, computing = numbers
    moving = max(dram, cache, _while_active(counted, "l1_throughput_pct"))
    computing = max(computing, _while_active(counted, "issue_pct"))
    if time_us <= (BRIEF_US + COLD_US) * launches and max(moving, computing) < 100 * NEAR_CEILING:
        return "overhead"
    if not is_map and max(moving, computing) < 100 * NEAR_CEILING:
        return "latency"
    return "memory" if moving >= computing else "compute"


def _while_active(counted: Mapping[str, Scalar], name: str) -> float:
    """A share that is counted while a multiprocessor is active, of the chip that the launch is sure to fill."""
    share, waves = counted.get(name), counted.get("waves")
    if isinstance(share, (int, float)) and isinstance(waves, (int, float)):
        return share * min(1.0, waves)
    return 0.0
