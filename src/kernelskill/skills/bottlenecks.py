"""What holds a program back: headroom above the floor, and ranked bottlenecks by their signatures over facts.

Every signature is asked for every subject of its kind, and all that match are kept: a program has as many bottlenecks
as it has, the heaviest first. The weight is the share of a call's time that the bottleneck sits on, where it was
measured; what is only read from the program has a small or structural weight that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelskill.skills.expression import Condition, FactIndex, Quantity

Headroom = Literal["high", "medium", "low", "unknown"]
AT_FLOOR = 0.95
"""Share of the floor from which there is nothing left to do."""
HIGH_BELOW = 0.6
LOW_ABOVE = 0.85
"""floor_ms / base_ms: below the first there is much to gain (over 1.67x), above the second little (under 1.18x)."""

STRUCTURES: dict[str, tuple[str, ...]] = {
    "kernel": ("map", "reduce", "row", "strided", "scan", "pool"),
    "program": ("elementwise", "layout_copy", "reduction", "softmax", "norm", "scan", "pool", "conv", "matmul"),
    "operator": (
        "elementwise", "reduction", "softmax", "norm", "scan", "pool", "conv", "matmul", "attention", "recurrent",
        "sort", "other",
    ),
}  # fmt: skip
"""Subject -> structures that a card may name: `kernel_kind`, or what `count_*` counts, or the operator's family."""


@dataclass(frozen=True)
class Signature:
    """One way to recognise a bottleneck."""

    subject: Literal["program", "kernel", "operator"]
    condition: str
    weight: str
    """Quantity over facts; a match whose weight is not known counts for nothing but is kept."""


HEAVY = ("matmul", "conv", "attention", "recurrent")
"""Families whose library calls are worth replacing for their own sake."""
BUSY, WAITING = 80, 30
"""Percent of its peak from which memory is what a kernel runs at; percent of warps' time from which waiting counts."""
QUIET = "dram_throughput_pct < 60 and l2_throughput_pct < 60"
COLD = "dram_throughput_pct < 40 and l2_throughput_pct < 40"
"""Memory that is not what a kernel runs at. These thresholds over counters are those of the method's decision table."""
BOTTLENECKS: dict[str, tuple[Signature, ...]] = {
    "memory-bandwidth": (
        Signature("kernel", "kernel_bound == 'memory'", "share_ratio"),
        Signature("kernel", f"dram_throughput_pct >= {BUSY} or l2_throughput_pct >= {BUSY}", "share_ratio"),
    ),
    "compute": (
        Signature("kernel", "kernel_bound == 'compute'", "share_ratio"),
        Signature(
            "kernel",
            "(sm_throughput_pct >= 70 or special_function_pct >= 60) "
            f"and memory_stall_pct < {WAITING} and {QUIET}",
            "share_ratio",
        ),
    ),
    "latency": (
        Signature("kernel", "kernel_bound == 'latency'", "share_ratio"),
        Signature(
            "kernel",
            f"dram_throughput_pct < {BUSY} and l2_throughput_pct < {BUSY} and memory_stall_pct >= {WAITING} "
            "and (sm_throughput_pct < 40 or achieved_occupancy_pct >= 75) "
            "and kernel_bound != 'compute' and counted_bound != 'overhead'",
            "share_ratio",
        ),
    ),
    # A warp's threads ask for more than they use, for the same again, or for one bank at a time.
    "access-pattern": (
        Signature(
            "kernel", "load_sectors >= 8 and load_use_pct < 60", "share_ratio * (1 - load_use_pct / 100)"
        ),
        Signature(
            "kernel", "store_sectors >= 8 and store_use_pct < 60", "share_ratio * (1 - store_use_pct / 100)"
        ),
        Signature("kernel", "counted_traffic_ratio >= 1.5", "share_ratio * (1 - 1 / counted_traffic_ratio)"),
        Signature(
            "kernel",
            "shared_conflict_ratio >= 0.25 and l1_throughput_pct >= 40",
            "share_ratio * shared_conflict_ratio",
        ),
        Signature(
            "kernel",
            f"l1_throughput_pct >= 70 and sm_throughput_pct < 40 and {COLD} and counted_bound != 'overhead'",
            "share_ratio",
        ),
    ),
    "register-pressure": (
        Signature("kernel", "occupancy_limiter == 'registers' and registers >= 96", "share_ratio"),
        Signature("kernel", "local_bytes > 0 or (registers > 0 and spills >= 1)", "share_ratio"),
    ),
    "divergence": (
        Signature(
            "kernel", "divergent_branch_pct >= 5 and " + QUIET, "share_ratio * divergent_branch_pct / 100"
        ),
    ),
    "launch-overhead": (
        Signature("kernel", "kernel_bound == 'overhead' or counted_bound == 'overhead'", "share_ratio"),
        Signature("program", "overhead_share_ratio >= 0.15", "overhead_share_ratio"),
        Signature("program", "graph_gain_ratio >= 1.1", "1 - 1 / graph_gain_ratio"),
        Signature("program", "target == 'cuda' and dispatch_ms > floor_ms", "1 - floor_ms / dispatch_ms"),
    ),
    # The idle share of the threads during the kernel, not the whole kernel.
    "thread-scaling": (
        Signature(
            "kernel", "parallel_efficiency_ratio < 0.8", "share_ratio * (1 - parallel_efficiency_ratio)"
        ),
    ),
    # n steps have n - 1 boundaries; each may be a trip through memory. Judged from the program, not measured.
    "unfused-steps": (
        Signature("program", "operators_left >= 2", "1 - 1 / operators_left"),
        Signature("program", "kernels >= 2", "1 - 1 / kernels"),
        Signature("program", "traffic_ratio >= 1.5", "1 - 1 / traffic_ratio"),
    ),
    "library-operators": (
        Signature("operator", "share_ratio > 0", "share_ratio"),
        Signature("operator", f"op_family in {HEAVY} and expected_share_ratio > 0", "expected_share_ratio"),
        Signature("program", "operators_left >= 1", "0.01"),
    ),
    "redundant-work": (
        Signature("program", "count_dead >= 1 or count_noop >= 1 or count_rewrite >= 1", "0.05"),
        Signature(
            "program", "count_linear_fold >= 1 or count_masked_product >= 1 or count_slice >= 1", "0.5"
        ),
    ),
    "data-layout": (Signature("program", "count_conv >= 1", "0.05"),),
    "no-headroom": (
        Signature("program", f"floor_share_ratio >= {AT_FLOOR}", "floor_share_ratio"),
        Signature(
            "program",
            "operators_left == 1 and traffic_ratio < 1.1 and floor_bound == 'memory' "
            "and count_elementwise + count_matmul + count_conv >= 1",
            "0.5",
        ),
    ),
}
"""Bottleneck -> its signatures; one match is enough."""

_COMPILED = {
    name: [
        (
            item.subject,
            Condition(item.condition, f"bottleneck {name}"),
            Quantity(item.weight, f"bottleneck {name}"),
        )
        for item in signatures
    ]
    for name, signatures in BOTTLENECKS.items()
}


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck that was found."""

    name: str
    weight: float
    subjects: tuple[str, ...]
    """Where; "" is the whole program."""


def headroom(index: FactIndex) -> Headroom:
    """How far the base is from the floor; unknown as long as it was not measured."""
    share = Quantity("floor_share_ratio", "headroom").value(index)
    if share is None:
        return "unknown"
    return "high" if share < HIGH_BELOW else "low" if share > LOW_ABOVE else "medium"


def find_bottlenecks(
    index: FactIndex, kernels: Sequence[str], operators: Sequence[str]
) -> tuple[Bottleneck, ...]:
    """All bottlenecks, heaviest first; equal weights by name."""
    subjects = {"program": ("",), "kernel": tuple(kernels), "operator": tuple(operators)}
    found = []
    for name, signatures in _COMPILED.items():
        hits: dict[str, float] = {}
        for kind, condition, weight in signatures:
            for subject in subjects[kind]:
                if condition.ask(index, subject).value:
                    hits[subject] = max(hits.get(subject, 0.0), weight.value(index, subject) or 0.0)
        if hits:
            found.append(Bottleneck(name, sum(hits.values()), tuple(hits)))
    return tuple(sorted(found, key=lambda item: (-item.weight, item.name)))
