"""Medians and intervals of paired times. All counts are fixed before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from kernelskill.records import Comparison, Interval, Timing

T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
         12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042}  # fmt: skip
"""Two-sided 95 % quantiles of Student's t by degrees of freedom (standard table)."""

NOISE_FLOOR, NOISE_CEILING = 0.02, 0.5
"""Smallest and largest A/A band: changes below 2 % are never called changes."""
SIGN_LEVEL = 0.002
"""Chance with which rounds of an arm against itself may agree as much as they must for a change to count."""
AGREEING_SETS = 0.8
"""Share of process sets whose medians must agree."""


def t_quantile(freedom: int) -> float:
    """The quantile for at most this many degrees of freedom (conservative between entries)."""
    return T_975[max(known for known in T_975 if known <= max(freedom, 1))]


def rank_interval(ratios: Sequence[float]) -> Interval:
    """Median of one process set's rounds with a distribution-free 95 % interval (order statistics).

    The k-th smallest and k-th largest of n values hold the median with probability 1 - 2 P(Binomial(n, 1/2) < k).
    """
    ordered = sorted(ratios)
    count = len(ordered)
    k = 0
    tail = 0.0
    while k < count // 2:
        tail += math.comb(count, k) / 2**count
        if tail > 0.025:
            break
        k += 1
    k = max(k, 1)
    return Interval(low=ordered[k - 1], value=median(ordered), high=ordered[count - k])


def set_interval(sets: Sequence[Sequence[float]]) -> Interval:
    """Median over all rounds with a t-interval over the process sets' median log-ratios."""
    logs = [math.log(median(ratios)) for ratios in sets]
    centre = sum(logs) / len(logs)
    if len(logs) == 1:
        return rank_interval(sets[0])
    spread = math.sqrt(sum((value - centre) ** 2 for value in logs) / (len(logs) - 1))
    half = t_quantile(len(logs) - 1) * spread / math.sqrt(len(logs))
    return Interval(low=math.exp(centre - half), value=math.exp(centre), high=math.exp(centre + half))


def compare(
    arm: str,
    sets: Sequence[Sequence[float]],
    noise_band: float,
    sure: Sequence[Sequence[float]] | None = None,
    agreeing: bool = True,
) -> Comparison:
    """Speedup over an arm from ratios of paired rounds.

    A change counts if the interval's lower end lies above 1, the median past the noise band, and most rounds and most
    process sets agree; all of that also without what waiting for a processor may have added to the arm's time.

    Args:
        arm: the arm in the numerator.
        sets: per process set, baseline_ms / candidate_ms of each round.
        noise_band: half-width of the A/A band; what lies within it is no change.
        sure: the same ratios without the arm's waiting; default: nothing waited.
        agreeing: whether rounds and sets must agree, too; not where a later promotion decides.
    """
    return Comparison(
        arm=arm,
        speedup=set_interval(sets),
        rounds=sum(len(rounds) for rounds in sets),
        sets=len(sets),
        significant=all(
            is_significant(ratios, noise_band, agreeing) for ratios in (sets, sure) if ratios is not None
        ),
    )


def is_significant(sets: Sequence[Sequence[float]], noise_band: float, agreeing: bool = True) -> bool:
    """Whether the candidate is faster beyond noise, and if asked for, most rounds and sets agree."""
    interval = set_interval(sets)
    ratios = [ratio for rounds in sets for ratio in rounds]
    agreeing_sets = sum(median(rounds) > 1 for rounds in sets) / len(sets)
    faster = interval.low > 1 and interval.value > 1 + noise_band
    agree = sign_chance(ratios) <= SIGN_LEVEL and agreeing_sets >= AGREEING_SETS
    return faster and (agree or not agreeing)


def sign_chance(ratios: Sequence[float]) -> float:
    """Chance that so many of so many ratios lie above 1 if each does so every other time (one-sided sign test)."""
    against = sum(ratio <= 1 for ratio in ratios)
    fewer: int = sum(math.comb(len(ratios), k) for k in range(against + 1))
    return fewer / float(2 ** len(ratios))


def noise_band(ratios: Sequence[float], busy_ratio: float = 0.0) -> float:
    """Half-width of the A/A band from rounds of one arm against itself.

    Args:
        ratios: per round, the arm's time over its twin's.
        busy_ratio: what waiting for a processor may explain; every later comparison deals with its own waiting.
    """
    interval = rank_interval(ratios)
    apart = max(interval.value, 1 / interval.value) - 1
    return min(NOISE_CEILING, max(NOISE_FLOOR, apart + (interval.high - interval.low) / 2 - busy_ratio))


def timing(arm: str, sets: Sequence[Sequence[float]], worker_ms: float | None = None) -> Timing:
    """One arm's times, milliseconds a call."""
    values = sorted(value for rounds in sets for value in rounds)
    return Timing(
        arm=arm,
        median_ms=median(values),
        p10_ms=values[int(0.1 * (len(values) - 1))],
        p90_ms=values[math.ceil(0.9 * (len(values) - 1))],
        samples_ms=tuple(tuple(round(value, 6) for value in rounds) for rounds in sets),
        worker_ms=worker_ms,
    )
