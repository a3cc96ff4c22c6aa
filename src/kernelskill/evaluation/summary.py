"""Rounds of all process sets, as the verdict shows them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from kernelskill.evaluation import statistics
from kernelskill.evaluation.contention import BUSY
from kernelskill.evaluation.rounds import Measured
from kernelskill.records import Comparison, Timing

BELOW_FLOOR = 0.95
"""Share of the floor below which a time is not believable."""

CLOCKS_APART = 0.02
"""Difference between the clocks of two arms from which it is told."""


def timings(sets: Sequence[Measured]) -> tuple[Timing, ...]:
    """Times of every arm, the candidate first."""
    arms = sorted(sets[0].wall, key=lambda arm: arm != "candidate")
    return tuple(
        statistics.timing(
            arm,
            [measured.times(arm) for measured in sets],
            median(value for measured in sets for value in measured.worker[arm]),
        )
        for arm in arms
    )


def comparisons(sets: Sequence[Measured], noise_band: float) -> tuple[Comparison, ...]:
    """The candidate against every other arm."""
    return tuple(
        statistics.compare(
            arm,
            [measured.ratios(arm) for measured in sets],
            noise_band,
            [measured.sure_ratios(arm) for measured in sets],
        )
        for arm in sets[0].wall
        if arm != "candidate"
    )


def flags(sets: Sequence[Measured], floor_ms: float | None) -> list[str]:
    """What should be shown beside the numbers."""
    found = {flag for measured in sets for flag in measured.flags}
    busy = median(measured.busy_ratio for measured in sets)
    if busy > BUSY:
        found.add(f"the machine was busy: workers waited {busy:.0%} of their computing time for a processor")
    for arm, mhz in sets[0].clock_mhz.items():
        clocks = [value for measured in sets for value in measured.clock_mhz["candidate"]]
        if min(median(mhz), median(clocks)) < (1 - CLOCKS_APART) * max(median(mhz), median(clocks)):
            found.add(
                f"clocks differ: {median(clocks):.0f} MHz for the candidate, {median(mhz):.0f} for {arm}"
            )
    mine = median(value for measured in sets for value in measured.times("candidate"))
    if floor_ms is not None and mine < BELOW_FLOOR * floor_ms:
        found.add(f"beyond the floor of {floor_ms:.4g} ms: not believable before it is explained")
    return sorted(found)
