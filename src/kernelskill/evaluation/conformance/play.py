"""Play cases through the real judge, one judge per task.

Baselines are eager's alone: compiling every reference would take longer than all cases, and a lower bar can only show
credit that a higher one would hide.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from kernelskill.errors import KernelSkillError, WorkerError
from kernelskill.evaluation import canary
from kernelskill.evaluation.conformance.beside import honest_twin, over_twin, settled
from kernelskill.evaluation.conformance.case import Case, Target, cases, task
from kernelskill.evaluation.conformance.outcome import Outcome, outcome, untestable
from kernelskill.evaluation.device import Cpu
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Status
from kernelskill.scratch import prefix

OWN = frozenset({"custom"})
"""What may win in cases that are about labels."""
PATIENCE_S: dict[Target, float] = {"cpu": 180.0, "cuda": 90.0}
"""Longest time for a first call: an honest candidate may compile in it, on a busy machine too."""
INTERRUPTED = "interrupted"
Told = Callable[[Outcome], None]


@dataclass(frozen=True)
class Unplayed:
    """A case that was not judged."""

    case: Case
    reason: str


@dataclass(frozen=True)
class Played:
    """What came of a selection."""

    outcomes: tuple[Outcome, ...]
    unplayed: tuple[Unplayed, ...]
    """Cases without a verdict: their judge failed, or somebody lost patience."""


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


def play(selected: Iterable[Case], *, jobs: int = 1, told: Told = lambda _: None) -> Played:
    """Judge cases; those of one task share a judge, tasks are spread over `jobs` processes.

    A judge that fails costs its own task alone, and an interrupt (as by Ctrl-C) what had not been played by then. On a
    GPU judges have a process of their own in any case: whoever loses its context has to end.

    Args:
        selected: what is played.
        jobs: processes.
        told: hears of each verdict when it is there.
    """
    groups = by_task(selected)
    found: list[Outcome | Unplayed] = []

    def take(item: Outcome | Unplayed) -> None:
        found.append(item)
        if isinstance(item, Outcome):
            told(item)

    try:
        if jobs <= 1 and all(group[0].target == "cpu" for group in groups):
            for group in groups:
                for item in play_task(group):
                    take(item)
        else:
            from kernelskill.evaluation.conformance.side_by_side import spread

            for item in spread(groups, min(max(jobs, 1), len(groups))):
                take(item)
    except KeyboardInterrupt:
        pass
    known = {item.case.id for item in found}
    left = (case for group in groups for case in group if case.id not in known)
    return Played(
        tuple(item for item in found if isinstance(item, Outcome)),
        (
            *(item for item in found if isinstance(item, Unplayed)),
            *(Unplayed(case, INTERRUPTED) for case in left),
        ),
    )


def by_task(selected: Iterable[Case]) -> list[list[Case]]:
    """Cases that share a judge; the longest lists first, so that no process is left with one at the end."""
    groups: dict[tuple[str, Target], list[Case]] = {}
    for case in selected:
        groups.setdefault((case.task, case.target), []).append(case)
    return sorted(groups.values(), key=len, reverse=True)


def play_task(group: list[Case]) -> Iterator[Outcome | Unplayed]:
    """Judge cases of one task and target."""
    judged: set[str] = set()
    try:
        for item in _verdicts(group):
            judged.add(item.case.id)
            yield item
    except KernelSkillError as error:
        yield from (Unplayed(case, str(error)) for case in group if case.id not in judged)


def _verdicts(group: list[Case]) -> Iterator[Outcome]:
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
            found = outcome(case, evaluation, time.monotonic() - began)
            if case.expect == "uncredited" and found.miss:
                gained = over_twin(judge, case.candidate, honest_twin(task(name, target)))
                found = settled(found, gained, evaluation.noise_band_ratio or 0.0)
                found = replace(found, seconds=time.monotonic() - began)
            yield found


def _sing(judge: Judge, name: str) -> None:
    bird = canary.candidate(task(name, "cuda"))
    assert bird is not None
    if judge.screen(bird, None).status is Status.PASSED:
        raise WorkerError(f"{name}: a result that is off by more than one was taken for right")


def _judge(name: str, target: Target, folder: str) -> Judge:
    cache, patience_s = Path(folder), PATIENCE_S[target]
    if target == "cuda":
        from kernelskill.evaluation.cuda.judge import cuda_judge

        judge = cuda_judge(task(name, target), cache_dir=cache, patience_s=patience_s)
        judge.device.arms = EagerOnly.arms
        return judge
    return Judge(task(name, target), cache_dir=cache, patience_s=patience_s, device=EagerOnly())
