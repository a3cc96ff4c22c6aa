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

REPLAYED = "a replay, with a seed that was known beforehand: evidence of a failure, never of a gain"
PROCESS_BAND = 0.05
"""Largest part of the A/A band that counts beside an interval over process sets."""
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
            band_for(arm, len(sets), noise_band),
            # Two candidates wait alike, and the winner is promoted against stock in any case.
            None if arm == "base" else [measured.sure_ratios(arm) for measured in sets],
            agreeing=arm != "base",
        )
        for arm in sets[0].wall
        if arm != "candidate"
    )


def band_for(arm: str, sets: int, noise_band: float) -> float:
    """What the candidate must be faster by than an arm, as a share.

    The band is what two processes of eager differ by. It stands in full where one process of eager or of another stock
    arm is compared. An interval over several process sets holds their differences already, and two programs of
    ours do not share what makes eager's processes differ (an allocation for each operator): there it is capped.
    """
    return min(noise_band, PROCESS_BAND) if sets > 1 or arm == "base" else noise_band


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
