"""Paired comparisons over tasks: how likely chance alone is, and geometric means with intervals."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from kernelskill.evaluation.statistics import set_interval
from kernelskill.records import Interval

EXACT = 16
"""Pairs that differ up to which all signs are gone through; beyond, they are drawn."""
DRAWS = 100_000


def chance(differences: Sequence[float], seed: int = 0) -> float:
    """One-sided p that the mean difference is above 0: a sign-flip permutation test.

    Under the null hypothesis each difference is as likely with the other sign. Drawn signs count the observed ones in,
    so p is never 0 (Phipson and Smyth 2010).

    Args:
        differences: one for each pair.
        seed: of the draws.
    """
    apart = [abs(item) for item in differences if item]
    observed = sum(differences) - 1e-9
    if len(apart) <= EXACT:
        sums = [
            sum(sign * item for sign, item in zip(signs, apart, strict=True))
            for signs in itertools.product((1, -1), repeat=len(apart))
        ]
        return sum(item >= observed for item in sums) / len(sums)
    draws = random.Random(seed)
    hits = sum(
        sum(item if draws.random() < 0.5 else -item for item in apart) >= observed for _ in range(DRAWS)
    )
    return (hits + 1) / (DRAWS + 1)


def geometric(ratios: Sequence[float]) -> Interval:
    """Geometric mean with a 95 % t-interval over tasks."""
    return set_interval([[ratio] for ratio in ratios])
