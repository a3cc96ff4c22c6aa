"""Play cases through the real judge, one judge per task.

Baselines are eager's alone: compiling every reference would take longer than all cases, and a lower bar can only show
credit that a higher one would hide.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

from kernelskill.errors import WorkerError
from kernelskill.evaluation import canary
from kernelskill.evaluation.conformance.case import Case, cases, task
from kernelskill.evaluation.conformance.outcome import Outcome, outcome, untestable
from kernelskill.evaluation.device import Cpu
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Status
from kernelskill.scratch import prefix

OWN = frozenset({"custom"})
"""What may win in cases that are about labels."""
PATIENCE_S = 180.0
"""Longest time for a first call: an honest candidate may compile in it, on a busy machine too."""


class EagerOnly(Cpu):
    """The processor, with eager as the only stock arm."""

    arms: tuple[str, ...] = ("eager",)


def chosen(target: str, only: Sequence[str] = ()) -> list[Case]:
    """Cases of a target; with `only`, those whose id or group is named.

    Raises:
        ValueError: nothing of that name.
    """
    known = [case for case in cases() if case.target == target]
    if not only:
        return known
    unknown = [word for word in only if not any(word in (case.id, case.group) for case in known)]
    if unknown:
        groups = ", ".join(sorted({case.group for case in known}))
        raise ValueError(f"no case or group {', '.join(unknown)} for {target}; groups: {groups}")
    return [case for case in known if case.id in only or case.group in only]


def play(
    selected: Iterable[Case], *, jobs: int = 1, told: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Judge cases; those of one task share a judge, tasks are spread over `jobs` processes.

    Raises:
        WorkerError: workers cannot be started, or the judge takes a canary for right.
    """
    by_task: dict[str, list[Case]] = {}
    for case in selected:
        by_task.setdefault(case.task, []).append(case)
    found: list[Outcome] = []
    if jobs <= 1 or len(by_task) < 2:
        for group in by_task.values():
            for item in _play_task(group):
                told(item)
                found.append(item)
        return found
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for items in pool.map(_played, [[case.id for case in group] for group in by_task.values()]):
            for item in items:
                told(item)
            found += items
    return found


def _played(ids: list[str]) -> list[Outcome]:
    return list(_play_task([case for case in cases() if case.id in ids]))


def _play_task(group: list[Case]) -> Iterator[Outcome]:
    name, target = group[0].task, group[0].target
    with (
        tempfile.TemporaryDirectory(prefix=prefix("cache")) as folder,
        closing(_judge(name, target, folder)) as judge,
    ):
        began = time.monotonic()
        reason = next((item.message for item in judge.describe().findings if item.fatal), "")
        if reason or all(case.expect == "untestable" for case in group):
            yield from (untestable(case, reason, time.monotonic() - began) for case in group)
            return
        judge.baselines()  # on the CPU with the canary
        if target == "cuda":
            _sing(judge, name)
        for case in group:
            began = time.monotonic()
            judge.allow = OWN if case.expect == "not-allowed" else frozenset()
            evaluation = judge.screen(case.candidate, None)
            yield outcome(case, evaluation, time.monotonic() - began)


def _sing(judge: Judge, name: str) -> None:
    bird = canary.candidate(task(name))
    assert bird is not None
    if judge.screen(bird, None).status is Status.PASSED:
        raise WorkerError(f"{name}: a result that is off by more than one was taken for right")


def _judge(name: str, target: str, folder: str) -> Judge:
    if target == "cuda":
        from kernelskill.evaluation.cuda.judge import cuda_judge

        return cuda_judge(task(name), cache_dir=Path(folder), patience_s=PATIENCE_S)
    return Judge(task(name), cache_dir=Path(folder), patience_s=PATIENCE_S, device=EagerOnly())
