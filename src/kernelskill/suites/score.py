"""Lines of a suite run -> what they amount to.

Every task counts in every share. A task without a faster answer of its own counts 1.0 in the means "over all tasks",
as the user of the result would run best stock there; means over verified candidates alone stand beside them, with
how many there are. A speedup beyond what the floor allows is cut down to it. fast_p takes the lower end of the
interval, and counts no gain that the judge put down to noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import mean, median

from kernelskill.records import (
    Answer,
    GroupScore,
    Interval,
    Spread,
    Status,
    SuiteManifest,
    SuiteScore,
    SuiteSession,
    TaskOutcome,
    TaskResult,
)
from kernelskill.records.model import Spent
from kernelskill.records.suite import closest, closest_arm, sure_speedup

FAST = (1.0, 1.1, 1.5, 2.0)
EAGER, STOCK = "eager", "best stock"


def score(
    manifest: SuiteManifest,
    results: Sequence[TaskResult],
    sessions: Sequence[SuiteSession],
    set_aside: dict[str, str],
) -> SuiteScore:
    """The score of a suite run, finished or not.

    Args:
        manifest: of the run.
        results: its lines.
        sessions: its stretches of work.
        set_aside: task -> why an audit sets it aside; tasks that the judge found untestable are added.
    """
    aside = {item.key: set_aside[item.key] for item in results if item.key in set_aside}
    aside |= {item.key: item.reason for item in results if item.outcome is TaskOutcome.UNTESTABLE}
    groups = [group(name, items) for name, items in _groups(results, aside) if items]
    known = [item for item in sessions if item.idle_ratio is not None]
    watched = sum(item.wall_s for item in known)
    return SuiteScore(
        id=manifest.id,
        suite=manifest.suite.name,
        kind=manifest.kind,
        preset=manifest.preset,
        finished=len(results),
        selected=len(manifest.suite.tasks),
        groups=tuple(groups),
        set_aside=aside,
        by_second_rule=_second(results),
        wall_s=round(sum(item.wall_s for item in sessions), 3),
        task_s=round(sum(item.wall_s for item in results), 3),
        spent_s=_summed(item.spent_s for item in results),
        gpu_s=_summed(item.gpu_s for item in results),
        idle_ratio=sum(item.wall_s * (item.idle_ratio or 0.0) for item in known) / watched
        if watched
        else None,
        model=sum((item.model for item in results), Spent()),
        samples=max((len(item.answers) for item in results if item.answers), default=1),
    )


def _summed(spent: Iterable[dict[str, float]]) -> dict[str, float]:
    """Seconds of all tasks by what took them, most first."""
    total: dict[str, float] = {}
    for task in spent:
        for kind, seconds in task.items():
            total[kind] = round(total.get(kind, 0.0) + seconds, 3)
    return dict(sorted(total.items(), key=lambda pair: -pair[1]))


def group(name: str, results: Sequence[TaskResult]) -> GroupScore:
    """One row over some tasks."""

    def count(*outcomes: TaskOutcome) -> int:
        return sum(item.outcome in outcomes for item in results)

    shares = [
        item.floor_ms / answer.time_ms
        for item in results
        if item.outcome is TaskOutcome.FASTER
        and (answer := item.answer) is not None
        and item.floor_ms
        and answer.time_ms
    ]
    return GroupScore(
        group=name,
        tasks=len(results),
        success=count(TaskOutcome.FASTER, TaskOutcome.VERIFIED),
        faster=count(TaskOutcome.FASTER),
        fallback=count(TaskOutcome.VERIFIED, TaskOutcome.STOCK),
        rejected=count(TaskOutcome.REJECTED),
        untestable=count(TaskOutcome.UNTESTABLE),
        failed=count(TaskOutcome.FAILED),
        eager=spread(results, EAGER),
        stock=spread(results, STOCK),
        floor_share_ratio=min(1.0, _geomean(shares)) if shares else None,
    )


def spread(results: Sequence[TaskResult], over: str) -> Spread:
    """Speedups of some tasks over "eager" or "best stock"."""
    every, verified, lows, capped = [], [], [], 0
    for item in results:
        answer = item.answer
        found = speedup(answer, over) if _counts(item, answer) else None
        if found is None:
            every.append(1.0)
            continue
        most = _most(item, over)
        capped += most is not None and found.value > most
        value = found.value if most is None else min(found.value, most)
        assert answer is not None, "a speedup is an answer's"
        sure = sure_speedup(answer, EAGER if over == EAGER else closest_arm(answer))
        low = sure if most is None else min(sure, most)
        verified.append(value)
        lows.append(low)
        every.append(value if item.outcome is TaskOutcome.FASTER else 1.0)
    total = max(1, len(results))
    return Spread(
        fast_ratio={f"{p:g}": sum(low > p for low in lows) / total for p in FAST},
        geomean_all=_geomean(every),
        mean_all=mean(every) if every else 1.0,
        geomean_verified=_geomean(verified) if verified else None,
        mean_verified=mean(verified) if verified else None,
        median_verified=median(verified) if verified else None,
        capped=capped,
    )


def speedup(answer: Answer | None, over: str) -> Interval | None:
    """Of an answer over "eager", or over the stock arm that it beats by least."""
    if answer is None or answer.status != Status.PASSED.value:
        return None
    return closest(answer) if over == STOCK else answer.over.get(over)


def _counts(item: TaskResult, answer: Answer | None) -> bool:
    return (
        answer is not None
        and not answer.is_baseline
        and item.outcome in (TaskOutcome.FASTER, TaskOutcome.VERIFIED)
    )


def _most(item: TaskResult, over: str) -> float | None:
    """Largest speedup that the floor allows."""
    times = next(iter(item.stock.values()), None)
    if times is None or not item.floor_ms:
        return None
    arm = times.arms.get("eager") if over == EAGER else times.arms[times.best_arm]
    return arm.median_ms / item.floor_ms if arm else None


def _groups(results: Sequence[TaskResult], aside: dict[str, str]) -> Iterable[tuple[str, list[TaskResult]]]:
    yield "all tasks", list(results)
    if aside:
        yield "without those set aside", [item for item in results if item.key not in aside]
    levels = sorted({item.level for item in results if item.level is not None})
    for level in levels if len(levels) > 1 else ():
        yield f"level {level}", [item for item in results if item.level == level]
    for work in sorted({item.work for item in results if item.work}):
        yield f"work: {work}", [item for item in results if item.work == work]
    skills = {skill for item in results for skill in _skills(item)}
    for skill in sorted(skills):
        yield f"skill: {skill}", [item for item in results if skill in _skills(item)]


def _skills(item: TaskResult) -> tuple[str, ...]:
    """Skills in the lineage of an answer that is faster."""
    answer = item.answer
    return answer.skills if answer is not None and item.outcome is TaskOutcome.FASTER else ()


def _second(results: Sequence[TaskResult]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for item in results:
        for answer in item.answers:
            if answer.second is not None:
                row = table.setdefault(answer.status, {})
                row[answer.second.status] = row.get(answer.second.status, 0) + 1
    return table


def _geomean(values: Sequence[float]) -> float:
    return math.exp(mean(math.log(value) for value in values)) if values else 1.0
