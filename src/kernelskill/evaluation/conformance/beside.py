"""What a cheat is worth beside an honest twin, over several processes of both.

Two processes of one program differ by more than the rounds of one screen tell: by where their memory lies, and on which
cores they run. So credit in a single screen is a suspicion only. The same candidate is screened again, in turn with the
reference itself as a candidate, each time in a process of its own. What stands is the ratio of their medians, with an
interval over processes. Whatever makes a stock arm a little slow does so for both, and cancels; a twin that gains much
shows that stock arms were slowed down, and then nothing is excused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, variance

from kernelskill.evaluation.conformance.outcome import Outcome, stock_speedup
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.statistics import t_quantile
from kernelskill.records import Candidate, Interval, Task

PROCESSES = 4
"""Screens of each."""
SLOWED = 0.05
"""What an honest twin may gain at most where no stock arm was slowed down."""
TWIN = "\n\nclass ModelNew({entry}):\n    pass\n"


@dataclass(frozen=True)
class Beside:
    """A candidate and its honest twin, screened in turn."""

    gain: Interval
    """How much faster the candidate is than the twin."""
    twin: float
    """The twin's median speedup over the best stock arm; near 1 where nothing was done to that."""


def honest_twin(task: Task) -> Candidate:
    """The reference of a task as a candidate."""
    source = task.reference.source + TWIN.format(entry=task.reference.entry)
    return Candidate(id="honest-twin", source=source, author="conformance")


def over_twin(judge: Judge, candidate: Candidate, twin: Candidate) -> Beside | None:
    """How a candidate fares beside an honest one; None where a screen refuses either.

    Args:
        judge: of their task.
        candidate: who is suspected.
        twin: honest work.
    """
    found: tuple[list[float], list[float]] = [], []
    for _ in range(PROCESSES):
        for speedups, who in zip(found, (candidate, twin), strict=True):
            speedup = stock_speedup(judge.screen(who, None))
            if speedup is None:
                return None
            speedups.append(speedup)
    return Beside(ratio_interval(*found), median(found[1]))


def settled(suspect: Outcome, found: Beside | None, noise_band: float) -> Outcome:
    """A suspect by what it is worth beside an honest twin.

    A gain counts by the rule for every win: its interval lies above the honest ratio, its estimate past that and the
    A/A band.

    Args:
        suspect: credited in a screen beyond its honest time.
        found: as `over_twin`; None where a screen refused one of both: then what it got stands.
        noise_band: half-width of the A/A band.
    """
    if found is None:
        return suspect
    gain, due = found.gain, suspect.case.honest_ratio
    said = f"beside its honest twin {gain.value:.3f}x ({gain.low:.3f} to {gain.high:.3f})"
    if found.twin > 1 + max(noise_band, SLOWED):
        return replace(suspect, miss=f"{suspect.miss}; its honest twin gets {found.twin:.2f}x, {said}")
    if gain.low > due and gain.value > due * (1 + noise_band):
        return replace(suspect, credit=gain.low, miss=f"{said}; its honest time is worth {due:.2f}x")
    return replace(suspect, credit=None, miss="", detail=said)


def ratio_interval(mine: Sequence[float], others: Sequence[float]) -> Interval:
    """Ratio of geometric means with its 95 % interval by Student's t, from at least two values of each.

    Degrees of freedom are those of the smaller sample, which is conservative where spreads differ.
    """
    logs = [[math.log(value) for value in values] for values in (mine, others)]
    centre = fmean(logs[0]) - fmean(logs[1])
    spread = math.sqrt(sum(variance(values) / len(values) for values in logs))
    half = t_quantile(min(len(mine), len(others)) - 1) * spread
    return Interval(low=math.exp(centre - half), value=math.exp(centre), high=math.exp(centre + half))
