"""The counter table: what is asked of ncu, in one place, and what is made of a kernel's launches.

Names of metrics differ between generations of GPUs and of ncu, so each counter lists them by preference; the first is
what compute capability 8.0 to 9.0 has. Sources: Nsight Compute, "Kernel Profiling Guide" (metrics reference) and
"Nsight Compute CLI" (nvprof metric comparison).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelskill.records import Scalar

Kind = Literal["percent", "time", "bytes", "number"]
"""What a value measures; decides which units are taken (`ncu.SCALES`). Times are microseconds, sizes bytes."""
SECTOR_BYTES = 32


@dataclass(frozen=True)
class Counter:
    """One thing to be counted in each launch."""

    name: str
    kind: Kind
    metrics: tuple[str, ...]
    """Metrics of ncu, best first."""
    adds_up: bool = False
    """Whether launches add up; otherwise they are averaged, weighted by their time."""


def _share(name: str, *metrics: str) -> Counter:
    return Counter(name, "percent", metrics)


STALLS = (
    "long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle", "tex_throttle", "math_pipe_throttle",
    "barrier", "wait", "branch_resolving", "no_instruction", "not_selected", "membar", "drain", "gmma",
)  # fmt: skip
"""Why a warp that is resident issues nothing. `gmma` exists from compute capability 9.0."""
MEMORY_STALLS = ("long_scoreboard", "lg_throttle", "drain")
"""Those that wait for global or local memory."""
LIMITS = ("registers", "shared_mem", "warps", "blocks")
"""What may limit the resident programs of a multiprocessor, as ncu names it."""

COUNTERS: tuple[Counter, ...] = (
    Counter("counted_us", "time", ("gpu__time_duration.sum", "gpu__time_duration.avg"), adds_up=True),
    _share(
        "dram_throughput_pct",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    _share("l2_throughput_pct", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    _share("l1_throughput_pct", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
    _share("sm_throughput_pct", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _share("achieved_occupancy_pct", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _share(
        "issue_pct",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "sm__inst_issued.avg.pct_of_peak_sustained_active",
    ),
    _share(
        "tensor_pct",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    _share("special_function_pct", "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
    _share("l1_hit_pct", "l1tex__t_sector_hit_rate.pct"),
    _share("l2_hit_pct", "lts__t_sector_hit_rate.pct"),
    _share("load_use_pct", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"),
    _share("store_use_pct", "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"),
    Counter("load_sectors", "number", ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",)),
    Counter("store_sectors", "number", ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",)),
    Counter("active_lanes", "number", ("smsp__thread_inst_executed_per_inst_executed.ratio",)),
    Counter("eligible_warps", "number", ("smsp__warps_eligible.avg.per_cycle_active",)),
    Counter("waves", "number", ("launch__waves_per_multiprocessor",)),
    Counter("dram_read", "bytes", ("dram__bytes_read.sum", "dram__bytes_op_read.sum"), adds_up=True),
    Counter("dram_written", "bytes", ("dram__bytes_write.sum", "dram__bytes_op_write.sum"), adds_up=True),
    Counter("local_loads", "number", ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",), adds_up=True),
    Counter("local_stores", "number", ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",), adds_up=True),
    Counter("conflicts", "number", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",), adds_up=True),
    Counter("shared_wavefronts", "number", ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",), adds_up=True),
    Counter("divergent", "number", ("smsp__sass_branch_targets_threads_divergent.sum",), adds_up=True),
    Counter("uniform", "number", ("smsp__sass_branch_targets_threads_uniform.sum",), adds_up=True),
    Counter("launch_registers", "number", ("launch__registers_per_thread",)),
    Counter("launch_threads", "number", ("launch__block_size",)),
    Counter("launch_static", "bytes", ("launch__shared_mem_per_block_static",)),
    Counter("launch_dynamic", "bytes", ("launch__shared_mem_per_block_dynamic",)),
    *(Counter(f"limit_{name}", "number", (f"launch__occupancy_limit_{name}",)) for name in LIMITS),
    *(
        _share(
            f"stall_{name}",
            f"smsp__warp_issue_stalled_{name}_per_warp_active.pct",
            f"smsp__average_warp_latency_issue_stalled_{name}.pct",
        )
        for name in STALLS
    ),
)  # fmt: skip
WEIGHT = "counted_us"


def wanted(passed_over: Mapping[str, int]) -> tuple[str, ...]:
    """Metrics to ask for.

    Args:
        passed_over: counter -> how many of its names are known not to exist here.
    """
    left = ((counter, passed_over.get(counter.name, 0)) for counter in COUNTERS)
    return tuple(counter.metrics[first] for counter, first in left if first < len(counter.metrics))


def counters_of(metrics: Iterable[str]) -> tuple[Counter, ...]:
    """The counters that some metrics belong to."""
    asked = set(metrics)
    return tuple(counter for counter in COUNTERS if asked & set(counter.metrics))


Values = Mapping[str, float]
"""Counter -> value of one launch; what was not counted is absent."""


def combined(launches: Sequence[Values]) -> dict[str, float]:
    """Counters of several launches as one: sums, or means weighted by time over the launches that have a value."""
    found: dict[str, float] = {"counted_launches": len(launches)}
    for counter in COUNTERS:
        known = [
            (values[counter.name], values.get(WEIGHT, 0.0)) for values in launches if counter.name in values
        ]
        if not known:
            continue
        total = sum(weight for _, weight in known)
        if counter.adds_up:
            found[counter.name] = sum(value for value, _ in known)
        elif total > 0:
            found[counter.name] = sum(value * weight for value, weight in known) / total
        else:
            found[counter.name] = sum(value for value, _ in known) / len(known)
    return found


def facts(values: Values) -> dict[str, Scalar]:
    """What combined counters of one kernel say, by name of fact; what cannot be told is absent."""
    # Parts and wholes may come from different replays, so that a short kernel's shares can exceed their whole.
    found: dict[str, Scalar] = {
        name: min(100.0, values[name]) if name.endswith("_pct") else values[name]
        for name in _AS_COUNTED
        if name in values
    }
    found["counted_launches"] = int(values["counted_launches"]) if "counted_launches" in values else None
    for name in ("load_use_pct", "store_use_pct"):  # 0: all go another way, as asynchronous copies do
        if not found.get(name):
            found.pop(name, None)
    found["dram_bytes"] = _sum(values, "dram_read", "dram_written")
    sectors = _sum(values, "local_loads", "local_stores")
    found["local_bytes"] = None if sectors is None else SECTOR_BYTES * sectors
    found["shared_conflict_ratio"] = _part(values.get("conflicts"), values.get("shared_wavefronts"))
    branches = _sum(values, "divergent", "uniform")
    divergent = _part(values.get("divergent"), branches)
    found["divergent_branch_pct"] = None if divergent is None else 100 * divergent
    found |= _stalls(values)
    found["occupancy_limiter"] = _limiter(values)
    return {name: value for name, value in found.items() if value is not None}


def resources(values: Values) -> dict[str, Scalar]:
    """Registers of a thread, shared memory (bytes) and warps of a program, as launched."""
    found: dict[str, Scalar] = {}
    if "launch_registers" in values:
        found["registers"] = round(values["launch_registers"])
    shared = _sum(values, "launch_static", "launch_dynamic")
    if shared is not None:
        found["shared_bytes"] = round(shared)
    if "launch_threads" in values:
        found["warps"] = -(-round(values["launch_threads"]) // 32)
    return found


_AS_COUNTED = tuple(
    counter.name
    for counter in COUNTERS
    if counter.name.endswith(("_pct", "_us")) or counter.name in {
        "load_sectors", "store_sectors", "active_lanes", "eligible_warps", "waves",
    }
)  # fmt: skip
"""Counters that are facts as they stand."""


def _stalls(values: Values) -> dict[str, Scalar]:
    known = {name: values[f"stall_{name}"] for name in STALLS if f"stall_{name}" in values}
    if not known:
        return {}
    top = max(known, key=lambda name: known[name])
    found: dict[str, Scalar] = {"top_stall": top, "top_stall_pct": known[top]}
    if all(name in known for name in MEMORY_STALLS):
        found["memory_stall_pct"] = sum(known[name] for name in MEMORY_STALLS)
    if "barrier" in known:
        found["barrier_stall_pct"] = known["barrier"]
    return found


def _limiter(values: Values) -> str | None:
    """What allows the fewest programs; the first of `LIMITS` where several do."""
    known = {name: values.get(f"limit_{name}") for name in LIMITS}
    numbers = {name: value for name, value in known.items() if value is not None}
    return min(numbers, key=lambda name: numbers[name]) if len(numbers) == len(LIMITS) else None


def _sum(values: Values, *names: str) -> float | None:
    known = [values[name] for name in names if name in values]
    return sum(known) if len(known) == len(names) else None


def _part(part: float | None, whole: float | None) -> float | None:
    """Share of a whole; nothing of nothing is 0."""
    if part is None or whole is None:
        return None
    return part / whole if whole > 0 else 0.0
