"""Which admitted skill first: the card's prior, shrunk with the evidence in like contexts.

The gain of an edit on the whole program is y = ln(base time / candidate time). Before any evidence,
y ~ Normal(m0, PRIOR_SD^2), where m0 is the card's prior for the subject, scaled to the program by Amdahl's law with the
subject's measured share. A verified row i is an observation y_i with variance BETWEEN_SD^2 + s_i^2: how much programs
differ from one another, and the row's own measurement noise, from its 95 % interval. It enters with weight w_i, its
context's similarity (a tempered likelihood), so

    precision = 1 / PRIOR_SD^2 + sum w_i / v_i
    mean      = (m0 / PRIOR_SD^2 + sum w_i y_i / v_i) / precision, or the card's limit where that is less

A rejected row ("don't") says nothing about speed, but that a round may be lost: the chance to be verified has a
Beta(SUCCESSES, FAILURES) prior, updated with the same weights, and scales a positive mean. What is little known gets a
bounded bonus, so that a skill whose prior is modest is tried some day. Nothing is random: equal stores rank equally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelskill.records import Record
from kernelskill.skills.experience import Context, Evidence

PRIOR_SD = 0.2
"""How far a card's prior may be off, in log speedup: a factor of 1.5 at two deviations."""
BETWEEN_SD = 0.1
"""How much the gain of one skill differs between like programs."""
SUCCESSES, FAILURES = 4.0, 1.0
"""A card is believed to be right four times in five before it was ever tried."""
EXPLORATION = 0.25
LARGEST_BONUS = 0.03
"""Bonus = EXPLORATION x deviation of the mean, at most 3 % of speed."""
LIKE = 0.5
"""Similarity from which an experience holds "there": same device and structure, at most one other difference."""
LOSSES = 2
"""Verified losses, beyond the wins, in like contexts after which a skill is suspended there."""
ONE_SIDED_95 = 1.645
SAME = 1e-9
"""Log speedups that are one number but for rounding."""
SMALLEST_RATIO = 1e-3
"""A speedup below this is taken as this."""


class Estimate(Record):
    """What is expected of a skill on one subject."""

    mean: float
    """Expected log speedup of the program if the edit is verified."""
    deviation: float
    success_ratio: float
    """Expected chance to be verified."""
    score: float
    """What is ranked: mean x chance + bonus."""
    verified: int
    rejected: int
    bounded: bool = False
    """Whether the mean is all that facts allow."""
    suspended: str = ""
    """Why evidence forbids it here; "" = it does not."""

    @property
    def expected_speedup(self) -> float:
        """The mean as a factor."""
        return math.exp(self.mean)


def of_program(log_speedup: float, share: float | None) -> float:
    """Amdahl's law: log speedup of a program when a part with that share of its time gets faster.

    An unknown share counts as the whole, as for an edit of the program itself. A part that takes no time any more
    (infinite) leaves the rest, and nothing of the whole.
    """
    if share is None:
        return log_speedup
    share = min(max(share, 0.0), 1.0)
    left = 1.0 - share + share * math.exp(-log_speedup)
    return -math.log(left) if left > 0 else math.inf


def estimate(prior: float, rows: Sequence[Evidence], context: Context, most: float = math.inf) -> Estimate:
    """Shrink a prior (log speedup of the program) with the evidence of one skill.

    What was gained elsewhere cannot be gained where there is less to save: `most` is the log speedup that facts of this
    program allow.
    """
    precision, weighted = 1.0 / PRIOR_SD**2, prior / PRIOR_SD**2
    successes, failures = SUCCESSES, FAILURES
    verified = rejected = 0
    for row in rows:
        weight = row.context.similarity(context)
        if row.verified:
            y, noise = _observed(row)
            variance = BETWEEN_SD**2 + noise**2
            precision += weight / variance
            weighted += weight * y / variance
            successes += weight
            verified += 1
        elif row.rejected:
            failures += weight
            rejected += 1
    mean, deviation = min(weighted / precision, most), precision**-0.5
    chance = successes / (successes + failures)
    bonus = min(EXPLORATION * deviation, LARGEST_BONUS)
    return Estimate(
        mean=mean,
        deviation=deviation,
        success_ratio=chance,
        score=(mean * chance if mean > 0 else mean) + bonus,
        verified=verified,
        rejected=rejected,
        bounded=most - mean < SAME,
        suspended=_suspended(rows, context),
    )


def _suspended(rows: Sequence[Evidence], context: Context) -> str:
    """The transfer guard: two verified losses more than wins in like contexts, or a mean that is surely a loss.

    A loss (win) is a verified row whose whole 95 % interval lies below (above) 1: the judge has shown, on outputs that
    it checked, that the edit made that program slower.
    """
    like = [row for row in rows if row.verified and row.context.similarity(context) >= LIKE]
    losses = sum(row.speedup.high < 1 for row in like if row.speedup)
    wins = sum(row.speedup.low > 1 for row in like if row.speedup)
    if len(like) < LOSSES:
        return ""
    observed = [_observed(row) for row in like]
    mean = sum(y for y, _ in observed) / len(observed)
    variance = sum(BETWEEN_SD**2 + noise**2 for _, noise in observed) / len(observed) ** 2
    upper = mean + ONE_SIDED_95 * math.sqrt(variance)
    if losses - wins < LOSSES and upper >= 0:
        return ""
    return (
        f"suspended here by evidence: of {len(like)} verified tries in like contexts {losses} were slower and {wins} "
        f"faster, {math.exp(mean):.3g}x on average"
    )


def _observed(row: Evidence) -> tuple[float, float]:
    """Log speedup of a verified row, and its standard error from the 95 % interval."""
    assert row.speedup is not None
    low, value, high = (
        math.log(max(item, SMALLEST_RATIO)) for item in (row.speedup.low, row.speedup.value, row.speedup.high)
    )
    return value, max(high - low, 0.0) / (2 * 1.96)
