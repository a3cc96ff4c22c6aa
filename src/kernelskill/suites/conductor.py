"""Work on a suite run until every task has its line: what is left goes to the pool, each line to the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

from kernelskill.errors import RunError
from kernelskill.records import Scalar, SuiteSession, SuiteTask, TaskResult
from kernelskill.suites.folder import SuiteFolder
from kernelskill.suites.job import Job, needed_bytes, stage, was_alone
from kernelskill.suites.pool import Pool
from kernelskill.suites.process import left_result
from kernelskill.suites.usage import GpuUsage

GRACE_S = 900.0
"""What a task may take beside its own budget: describing, baselines, promotion, second verdicts."""
NO_BUDGET_S = 3600.0

Told = Callable[[TaskResult, int, int], None]
"""Called with each line, how many are done, and how many there are."""


def conduct(
    folder: SuiteFolder,
    pool: Pool,
    *,
    machine: dict[str, Scalar],
    gpus: tuple[int, ...] = (),
    sizes: dict[str, tuple[int, int]] | None = None,
    tell: Told = lambda result, done, of: None,
) -> None:
    """Do what is left of a run.

    Args:
        folder: held by this process.
        pool: who works.
        machine: what this session runs on.
        gpus: those whose idleness is sampled.
        sizes: task -> bytes of a call's inputs and outputs, and of its state, where they are known.
        tell: told of each finished task.
    """
    left = folder.left()
    done, total = len(folder.manifest.suite.tasks) - len(left), len(folder.manifest.suite.tasks)
    began, clock = datetime.now(UTC), time.monotonic()
    usage = GpuUsage(gpus)
    session = SuiteSession(
        id=f"{began:%Y%m%d-%H%M%S-%f}", began=began.isoformat(timespec="seconds"), wall_s=0.0, jobs=pool.places,
        pool=pool.name, devices=pool.devices, machine=machine,
    )  # fmt: skip

    def settle(result: TaskResult) -> None:
        nonlocal done
        now = datetime.now(UTC).isoformat(timespec="seconds")
        result = result.model_copy(
            update={"session": session.id, "at": now, "folder": _within(folder, result)}
        )
        folder.append(result)
        folder.note(_so_far(session, clock, usage))
        done += 1
        tell(result, done, total)

    try:
        folder.note(session)
        work = []
        for task in left:
            job = job_of(folder, task, (sizes or {}).get(task.key))
            ready = _ready(job, folder)
            if isinstance(ready, TaskResult):
                settle(ready)
            else:
                work.append(ready)
        with closing(pool.results(work, folder.tasks)) as results:
            for result in results:
                settle(result)
    finally:
        folder.note(_so_far(session, clock, usage))
        usage.close()


def job_of(folder: SuiteFolder, task: SuiteTask, size: tuple[int, int] | None) -> Job:
    """What is to be done to a task of a run."""
    manifest = folder.manifest
    candidates = manifest.candidates.get(task.key, ())
    seconds = (manifest.settings.get("budget") or {}).get("seconds")
    limit = GRACE_S * max(1, len(candidates)) + (seconds if seconds is not None else NO_BUDGET_S)
    return Job(
        task=task, kind=manifest.kind, settings=manifest.settings, preset=manifest.preset, quick=manifest.quick,
        candidates=candidates, needs_bytes=needed_bytes(manifest.kind, *(size or (None, None))),
        alone=was_alone(folder.tasks / task.key), limit_s=limit,
    )  # fmt: skip


def _ready(job: Job, folder: SuiteFolder) -> Job | TaskResult:
    """The job, laid into its folder; or its line, if a session that was killed left it, or it cannot be laid."""
    home = folder.tasks / job.task.key
    left = left_result(home, job)
    if left is not None and not left.starved:
        return left
    try:
        stage(job, home)
    except RunError as error:
        return job.failed(str(error))
    return job


def _within(folder: SuiteFolder, result: TaskResult) -> str:
    """Where a task's records lie, from the run's folder."""
    return str((folder.tasks / result.key / result.folder).relative_to(folder.path))


def _so_far(session: SuiteSession, clock: float, usage: GpuUsage) -> SuiteSession:
    wall_s = round(time.monotonic() - clock, 3)
    return session.model_copy(update={"wall_s": wall_s, "idle_ratio": usage.idle_ratio})
