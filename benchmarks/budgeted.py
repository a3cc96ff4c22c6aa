"""A task searched at a fixed number of judged evaluations: what comparisons of memories and of searches are made of.

A run is judged by screens alone. Its answer is screened once more on fresh inputs in a fresh process, so that nobody
gains by having been chosen for a lucky time. A run that was interrupted goes on where it was; one that is done is a
line of a file, and is not done again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import typer

from kernelskill import session
from kernelskill.config import Config, build_evaluator, build_parts, load_config
from kernelskill.errors import KernelSkillError
from kernelskill.journal import Journal, load_run
from kernelskill.loop import optimize
from kernelskill.protocols import Strategy
from kernelskill.records import Attempt, Evaluation, Retrieval, Run
from kernelskill.report import SilentProgress
from kernelskill.search import STRATEGIES
from kernelskill.tasks import load_task

Line = dict[str, Any]
J = TypeVar("J")


class Unpromoted:
    """Implements `protocols.Strategy`: another one, whose finalists are not re-timed by the loop."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def base(self, attempts: Sequence[Attempt], spent: Container[str]) -> Attempt | None:
        """As the other says."""
        return self._strategy.base(attempts, spent)

    def order(self, base: Attempt, retrieval: Retrieval, attempts: Sequence[Attempt]) -> Retrieval:
        """As the other says."""
        return self._strategy.order(base, retrieval, attempts)

    def is_better(self, attempt: Attempt) -> bool:
        """As the other says."""
        return self._strategy.is_better(attempt)

    def best_of(self, attempts: Sequence[Attempt]) -> Attempt | None:
        """As the other says."""
        return self._strategy.best_of(attempts)

    def finalists(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """None."""
        return ()


def settings(place: Path, cache: Path, evidence: Path | None, evaluations: int) -> Config:
    """Settings of one run: every round is one judged evaluation, and nothing but their number ends it early.

    Args:
        place: folder that the run's own is made in.
        cache: machine ceilings and the compile arm's artefacts.
        evidence: store that it reads and writes; None keeps none.
        evaluations: of which one at least is a first version.
    """
    budget = {"rounds": evaluations - 1, "patience": evaluations, "repairs": 0, "seconds": 3600.0}
    config = load_config(target="cpu", runs=place, cache=cache, budget=budget)
    return config.model_copy(update={"evidence": evidence})


def searched(config: Config, file: Path, evaluations: int) -> Line:
    """Search a task, or go on with it; returns what it came to.

    Args:
        config: as `settings` gives them; its `runs` is this run's alone.
        file: the task's.
        evaluations: how many count.
    """
    begun = session.list_runs(config)
    home = (
        begun[-1] if begun else session.begin(config, lambda storage: load_task(str(file), storage=storage))
    )
    task = load_run(home).task
    strategy = Unpromoted(STRATEGIES[config.search]())
    with closing(Journal(home)) as journal, closing(build_evaluator(config, task)) as evaluator:
        optimize(
            task,
            evaluator,
            lambda workload: replace(build_parts(config, task, workload, evaluator, home), strategy=strategy),
            config.budget,
            journal,
            SilentProgress(),
        )
        run = load_run(home)
        judged = [attempt for attempt in run.attempts if attempt.evaluation][:evaluations]
        best = strategy.best_of(judged)
        again = (
            journal.step("confirmation", Evaluation, lambda: evaluator.screen(best.candidate, None))
            if best
            else None
        )
    return _line(run, judged, best, again)


def _line(run: Run, judged: Sequence[Attempt], best: Attempt | None, again: Evaluation | None) -> Line:
    """What a run came to: ratios over eager and over the base as [low, value, high]."""
    assert run.result is not None
    stock = {item.arm: item.median_ms for item in run.baselines.timings} if run.baselines else {}
    return {
        "stop": run.result.stop.value,
        "device": run.machine["device"],
        "threads": run.machine["threads"],
        "torch": run.machine["torch_version"],
        "stock_ms": {arm: round(value, 5) for arm, value in stock.items()},
        "floor_ms": run.floor.floor_ms if run.floor else None,
        "band": run.baselines.noise_band_ratio if run.baselines else None,
        "evaluations": [_attempt(attempt) for attempt in judged],
        "final": None if best is None else best.candidate.id,
        "confirmed": _over(again, "eager"),
        "seconds": round(sum(value for step, value in run.machine_s.items() if "/" not in step), 1),
    }


def _attempt(attempt: Attempt) -> Line:
    return {
        "id": attempt.candidate.id,
        "base": attempt.plan.base_id,
        "edits": [edit.key for edit in attempt.plan.edits],
        "outcome": attempt.outcome.value,
        "status": attempt.evaluation.status.value if attempt.evaluation else "",
        "over_eager": _over(attempt.evaluation, "eager"),
        "over_base": _over(attempt.evaluation, "base"),
    }


def _over(evaluation: Evaluation | None, arm: str) -> list[float] | None:
    speedup = evaluation.speedup(arm) if evaluation else None
    return None if speedup is None else [round(x, 4) for x in (speedup.low, speedup.value, speedup.high)]


def final(line: Line) -> float | None:
    """Speedup over eager of a run's answer, by the screen that did not choose it; None where it has none."""
    return line["confirmed"][1] if line.get("confirmed") else None


def part_of(jobs: Sequence[J], text: str) -> list[J]:
    """The part "I/N" of the work, I from 1.

    Raises:
        BadParameter: it is no such part.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"--shard {text}: give I/N with I from 1 to N")
    return list(jobs[int(found[1]) - 1 :: int(found[2])])


def lines(folder: Path) -> list[Line]:
    """All whole lines of the files of a folder."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        whole = [text for text in file.read_text("utf-8").splitlines(keepends=True) if text.endswith("\n")]
        found += [json.loads(text) for text in whole]
    return found


def done(told: Sequence[Line]) -> set[str]:
    """Keys of the runs that came to their end; one that broke off is tried again."""
    return {line["key"] for line in told if "error" not in line}


def left(jobs: Sequence[J], ended: Container[str], key: Callable[[J], str], limit_s: float) -> Iterator[J]:
    """Jobs that have not ended yet, as long as there is time to begin one."""
    began = time.monotonic()
    for job in jobs:
        if key(job) in ended:
            continue
        if time.monotonic() - began > limit_s:
            return
        yield job


def keep(file: Path, key: str, facts: Line, work: Callable[[], Line]) -> None:
    """Do a run and add its line; what goes wrong with it is its line."""
    try:
        told = work()
    except KernelSkillError as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"key": key, **facts, **told}, allow_nan=False) + "\n")
    print(
        key, told.get("error") or f"{told['stop']}, {final(told)} over eager, {told['seconds']} s", flush=True
    )
