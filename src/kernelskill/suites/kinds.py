"""What is done to one task, by kind: make it faster, time the stock arms, audit it, judge what others wrote.

Every step is recorded in the task's folder before the next begins, so a killed task goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from kernelskill import session
from kernelskill.config import Config, build_evaluator, build_floor, changed_config
from kernelskill.errors import KernelSkillError, TaskError
from kernelskill.journal import MANIFEST, Journal, write_atomically
from kernelskill.llm.calls import FOLDER as CALLS
from kernelskill.llm.calls import read_calls
from kernelskill.protocols import Evaluator, Progress
from kernelskill.records import (
    Answer,
    Baselines,
    Candidate,
    Evaluation,
    Floor,
    Foreign,
    Json,
    Precision,
    Run,
    SecondVerdict,
    Status,
    SuiteKind,
    TaskOutcome,
    TaskResult,
    Workload,
)
from kernelskill.records.model import Spent
from kernelskill.suites.folder import PLACES
from kernelskill.suites.job import Job
from kernelskill.suites.outcome import answer_of, run_outcome, short_of_memory, sizes, stock_times
from kernelskill.suites.work import work_of
from kernelskill.tasks import load_task

OURS = "relative"
"""Our own rule, by which a preset's candidates are judged once more."""


def do(job: Job, folder: Path, gpu: int | None, progress: Progress) -> TaskResult:
    """A job to its end. What is wrong with the task, or with us, is a result with its reason."""
    config = job.config(folder, gpu)
    try:
        return KINDS[job.kind](job, folder, config, progress)
    except KernelSkillError as error:
        text = str(error)
        short = short_of_memory(text)
        outcome = TaskOutcome.UNTESTABLE if short and isinstance(error, TaskError) else TaskOutcome.FAILED
        return job.result(outcome, text, starved=short)


def _run(job: Job, folder: Path, config: Config, progress: Progress) -> TaskResult:
    home = _home(job, folder, config)
    run = session.carry_on(home, progress)
    with _journal(home) as journal:
        promoted = {
            attempt.candidate.id: journal.step(key, Evaluation, _never)
            for attempt in run.attempts
            if journal.has(key := f"promote/{attempt.candidate.id}")
        }
        outcome, reason, answers = run_outcome(run, promoted)
        if job.preset and answers:
            answers = (_with_second(answers[0], run, config, journal),)
        spent = _by_kind(journal.seconds)
    judged = [item.evaluation for item in run.attempts if item.evaluation]
    return job.result(
        outcome, reason, answers=answers, attempts=len(run.attempts), model=_model_cost(home),
        folder=str(home.relative_to(folder)),
        spent_s=spent, starved=short_of_memory(reason, judged),
        **_known(run.workload, run.floor, run.task.reference.source),
        **({"stock": {config.precision.value: stock_times(run.baselines)}} if run.baselines else {}),
    )  # fmt: skip


def _home(job: Job, folder: Path, config: Config) -> Path:
    """Folder of the task's run: a new one, or the one begun before, maybe elsewhere, to go on where things lie now."""
    task = load_task(job.reference(folder), precision=config.precision)
    begun = session.list_runs(config)
    if not begun:
        return session.begin(config, lambda _: task)
    run = Run.model_validate_json((begun[-1] / MANIFEST).read_text(encoding="utf-8"))
    placed = config.model_dump(mode="json", include=set(PLACES))
    here = run.model_copy(
        update={
            "config": {**run.config, **placed},
            "task": run.task.model_copy(update={"reference": task.reference}),
        }
    )
    if here != run:
        write_atomically(begun[-1] / MANIFEST, here.model_dump_json(indent=2))
    return begun[-1]


def _audit(job: Job, folder: Path, config: Config, progress: Progress) -> TaskResult:
    with _judging(job, folder, config) as (journal, evaluator):
        progress.stage("describe", job.task.key)
        workload = journal.step("describe", Workload, evaluator.describe)
        outcome, reason = _audited(workload)
        return job.result(
            outcome, reason, spent_s=_by_kind(journal.seconds), starved=short_of_memory(reason),
            **_known(workload, None, job.reference(folder).read_text(encoding="utf-8")),
        )  # fmt: skip


def _baselines(job: Job, folder: Path, config: Config, progress: Progress) -> TaskResult:
    stock = {}
    with _judging(job, folder, config) as (journal, evaluator):
        progress.stage("describe", job.task.key)
        workload = journal.step("describe", Workload, evaluator.describe)
        evaluator.adopt(workload, None)
        floor = journal.step("floor", Floor, lambda: build_floor(config).floor(workload))
        outcome, reason = _audited(workload)
        if not any(item.code == "too-big" for item in workload.findings):
            progress.stage("baselines", config.precision.value)
            timed = journal.step(f"baselines/{config.precision.value}", Baselines, evaluator.baselines)
            stock[config.precision.value] = stock_times(timed)
        seconds = dict(journal.seconds)
    for precision in _other_flags(config) if stock else ():
        with _judging(job, folder, changed_config(config, precision=precision)) as (journal, evaluator):
            evaluator.adopt(workload, None)
            progress.stage("baselines", precision.value)
            timed = journal.step(f"baselines/{precision.value}", Baselines, evaluator.baselines)
            stock[precision.value] = stock_times(timed)
            seconds |= journal.seconds
    return job.result(
        outcome, reason, stock=stock, spent_s=_by_kind(seconds), starved=short_of_memory(reason),
        **_known(workload, floor, job.reference(folder).read_text(encoding="utf-8")),
    )  # fmt: skip


def _candidates(job: Job, folder: Path, config: Config, progress: Progress) -> TaskResult:
    source = job.reference(folder).read_text(encoding="utf-8")
    with _judging(job, folder, config) as (journal, evaluator):
        progress.stage("describe", job.task.key)
        workload = journal.step("describe", Workload, evaluator.describe)
        outcome, reason = _audited(workload)
        if outcome is TaskOutcome.UNTESTABLE:
            known = _known(workload, None, source)
            return job.result(outcome, reason, spent_s=_by_kind(journal.seconds), **known)
        if not job.candidates:
            return job.result(TaskOutcome.REJECTED, "no candidate", **_known(workload, None, source))
        evaluator.adopt(workload, None)
        floor = journal.step("floor", Floor, lambda: build_floor(config).floor(workload))
        progress.stage("baselines", config.precision.value)
        baselines = journal.step("baselines", Baselines, evaluator.baselines)
        evaluator.adopt(workload, baselines, floor.floor_ms)
        judged = [
            _judged(job, folder, item, evaluator, baselines, journal, progress) for item in job.candidates
        ]
        answers = [answer for answer, _ in judged]
        if job.preset:
            answers = _with_second_verdicts(answers, [one for _, one in judged], job, folder, config, journal)
        spent = _by_kind(journal.seconds)
    known = _known(workload, floor, source)
    line = job.result(
        TaskOutcome.REJECTED, "", answers=tuple(answers), attempts=len(answers), spent_s=spent,
        stock={config.precision.value: stock_times(baselines)}, **known,
    )  # fmt: skip
    best = line.answer
    assert best is not None
    starved = any(item.status == Status.OUT_OF_MEMORY.value for item in answers)
    outcome = TaskOutcome.STOCK if best.is_baseline else best.outcome
    return line.model_copy(update={"outcome": outcome, "reason": best.reason, "starved": starved})


def _judged(
    job: Job,
    folder: Path,
    foreign: Foreign,
    evaluator: Evaluator,
    baselines: Baselines,
    journal: Journal,
    progress: Progress,
) -> tuple[Answer, Candidate]:
    candidate = Candidate(id=foreign.id, source=job.kernel(folder, foreign), author="foreign")
    progress.stage("judge", foreign.id)
    verdict = journal.step(f"screen/{foreign.id}", Evaluation, lambda: evaluator.screen(candidate, None))
    if verdict.status is Status.PASSED and not job.quick:
        progress.stage("promote", foreign.id)
        verdict = journal.step(f"promote/{foreign.id}", Evaluation, lambda: evaluator.promote(candidate))
    return answer_of(candidate, verdict, baselines.best_arm, foreign.sample), candidate


def _with_second(answer: Answer, run: Run, config: Config, journal: Journal) -> Answer:
    """The answer with our own verdict beside the preset's."""
    candidate = next(item.candidate for item in run.attempts if item.candidate.id == answer.id)
    assert run.workload is not None
    evaluator = build_evaluator(changed_config(config, tolerance=OURS), run.task)
    try:
        evaluator.adopt(run.workload, run.baselines)
        return _second(answer, candidate, evaluator, journal)
    finally:
        evaluator.close()


def _with_second_verdicts(
    answers: list[Answer], judged: list[Candidate], job: Job, folder: Path, config: Config, journal: Journal
) -> list[Answer]:
    task = load_task(job.reference(folder), precision=config.precision)
    evaluator = build_evaluator(changed_config(config, tolerance=OURS), task)
    try:
        evaluator.adopt(
            journal.step("describe", Workload, _never), journal.step("baselines", Baselines, _never)
        )
        return [
            _second(answer, candidate, evaluator, journal)
            for answer, candidate in zip(answers, judged, strict=True)
        ]
    finally:
        evaluator.close()


def _second(answer: Answer, candidate: Candidate, evaluator: Evaluator, journal: Journal) -> Answer:
    verdict = journal.step(f"second/{answer.id}", Evaluation, lambda: evaluator.screen(candidate, None))
    second = SecondVerdict(tolerance=OURS, status=verdict.status.value, detail=verdict.detail[:300])
    return answer.model_copy(update={"second": second})


@contextmanager
def _judging(job: Job, folder: Path, config: Config) -> Iterator[tuple[Journal, Evaluator]]:
    """A journal in the task's folder, and the judge of the task."""
    task = load_task(job.reference(folder), precision=config.precision)
    with _journal(folder) as journal:
        evaluator = build_evaluator(config, task)
        try:
            yield journal, evaluator
        finally:
            evaluator.close()


@contextmanager
def _journal(folder: Path) -> Iterator[Journal]:
    journal = Journal(folder)
    try:
        yield journal
    finally:
        journal.close()


def _audited(workload: Workload) -> tuple[TaskOutcome, str]:
    fatal = next((item for item in workload.findings if item.fatal), None)
    if fatal is not None:
        return TaskOutcome.UNTESTABLE, f"{fatal.code}: {fatal.message}"
    return TaskOutcome.DESCRIBED, "; ".join(f"{item.code}: {item.message}" for item in workload.findings)


def _known(workload: Workload | None, floor: Floor | None, source: str) -> dict[str, Json]:
    """What a line tells of a task, whatever was done to it."""
    if workload is None:
        return {}
    moved, state = sizes(workload)
    told: dict[str, Json] = {
        "work": work_of(workload.graph, source), "findings": workload.findings, "moved_bytes": moved,
        "state_bytes": state,
    }  # fmt: skip
    return told if floor is None else {**told, "floor_ms": floor.floor_ms, "bound": floor.bound}


def _model_cost(home: Path) -> Spent:
    """What language models cost in a run, lost calls included."""
    calls = read_calls(home / CALLS)
    return sum((call.spent + call.lost for call in calls), Spent())


def _other_flags(config: Config) -> tuple[Precision, ...]:
    """The other flag setting; a CPU knows no TF32."""
    if config.target != "cuda":
        return ()
    return (Precision.TF32 if config.precision is not Precision.TF32 else Precision.MATCH,)


def _by_kind(seconds: dict[str, float]) -> dict[str, float]:
    """Wall seconds by kind of step; steps that contain others count only what is not in them."""
    spent: dict[str, float] = {}
    for key, value in seconds.items():
        kind = key.split("/")[0]
        spent[kind] = spent.get(kind, 0.0) + value
    inside = sum(spent.get(kind, 0.0) for kind in ("screen",))
    if "attempt" in spent:
        spent["write"] = max(0.0, spent.pop("attempt") - inside)
    if "result" in spent:
        rest = sum(
            spent.get(kind, 0.0) for kind in ("screen", "write", "observe", "plan", "promote", "seeds")
        )
        spent["other"] = max(0.0, spent.pop("result") - rest)
    return {kind: round(value, 3) for kind, value in sorted(spent.items(), key=lambda item: -item[1])}


def _never() -> NoReturn:
    raise KernelSkillError("a step that the journal holds was asked for anew")


KINDS: dict[SuiteKind, Callable[[Job, Path, Config, Progress], TaskResult]] = {
    "run": _run,
    "baselines": _baselines,
    "audit": _audit,
    "candidates": _candidates,
}
