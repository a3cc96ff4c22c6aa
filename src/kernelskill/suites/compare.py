"""Two runs of one suite, task by task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev

from kernelskill.errors import RunError
from kernelskill.records import Interval, SuiteComparison, TaskChange, TaskOutcome, TaskResult
from kernelskill.records.suite import Change
from kernelskill.suites.score import EAGER, STOCK, speedup

NORMAL = 1.96
"""Half-width of a 95 % interval in standard errors."""


def compare(
    names: tuple[str, str],
    first: Sequence[TaskResult],
    second: Sequence[TaskResult],
    differs: tuple[str, ...] = (),
) -> SuiteComparison:
    """Set two runs side by side.

    Raises:
        RunError: they share no task.
    """
    before, after = {item.key: item for item in first}, {item.key: item for item in second}
    shared = [key for key in before if key in after and before[key].hash == after[key].hash]
    if not shared:
        raise RunError(f"suite runs {names[0]} and {names[1]} share no finished task")
    changes = tuple(_change(before[key], after[key]) for key in shared)
    ratio = {}
    both: list[str] = []
    for over in (EAGER, STOCK):
        pairs = [
            (mine.value, theirs.value)
            for key in shared
            if (mine := _verified(before[key], over)) and (theirs := _verified(after[key], over))
        ]
        if pairs:
            ratio[over] = _geometric([theirs / mine for mine, theirs in pairs])
        both = [key for key in shared if _verified(before[key], over) and _verified(after[key], over)]
    return SuiteComparison(
        first=names[0],
        second=names[1],
        shared=len(shared),
        only_first=tuple(key for key in before if key not in after),
        only_second=tuple(key for key in after if key not in before),
        ratio=ratio,
        verified_in_both=len(both),
        changes=changes,
        differs=differs,
    )


def _change(before: TaskResult, after: TaskResult) -> TaskChange:
    mine, theirs = _verified(before, STOCK), _verified(after, STOCK)
    change: Change = "same"
    if mine is None or theirs is None:
        change = "same" if mine is theirs else "gained" if mine is None else "lost"
    elif theirs.low > mine.high:
        change = "better"
    elif theirs.high < mine.low:
        change = "worse"
    return TaskChange(
        key=before.key, before=before.outcome, after=after.outcome, over_stock_before=mine,
        over_stock_after=theirs, change=change,
    )  # fmt: skip


def _verified(item: TaskResult, over: str) -> Interval | None:
    return speedup(item.answer, over) if item.outcome in (TaskOutcome.FASTER, TaskOutcome.VERIFIED) else None


def _geometric(ratios: list[float]) -> Interval:
    """Geometric mean with the interval that the spread over tasks gives."""
    logs = [math.log(item) for item in ratios]
    half = NORMAL * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    centre = mean(logs)
    return Interval(low=math.exp(centre - half), value=math.exp(centre), high=math.exp(centre + half))
