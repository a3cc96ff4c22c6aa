"""One task's work as data: all that a process, here or on another machine, needs to do it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pydantic import ValidationError

from kernelskill.config import Config
from kernelskill.errors import RunError
from kernelskill.journal import EVENTS, write_atomically
from kernelskill.records import Foreign, Json, Record, SuiteKind, SuiteTask, TaskOutcome, TaskResult

CONTEXTS_BYTES = {"audit": 2 << 30}
"""Device memory that the processes of a kind of work take before they compute anything, about."""
MOST_CONTEXTS_BYTES = 5 << 30
COPIES_MOVED = {"audit": 8}
"""Copies of a call's inputs and outputs that a kind of work holds over all of its processes, about."""
MOST_COPIES_MOVED = 8
COPIES_STATE = 8
BURST_BYTES, BURST_CALLS, COPIES_BURST = 4 << 30, 128, 4
"""What the calls of a burst move and how many they are at most, and copies of what they move beyond one call."""
JOB, RESULT, LOG = "job.json", "result.json", "log.txt"


class Job(Record):
    """What is to be done to one task. Its folder holds copies of the files that it names."""

    task: SuiteTask
    kind: SuiteKind
    settings: dict[str, Json]
    preset: str = ""
    quick: bool = False
    """Judge by the screen alone (kind "candidates")."""
    candidates: tuple[Foreign, ...] = ()
    needs_bytes: int | None = None
    """Device memory that it will take, about; None if unknown."""
    alone: bool = False
    """Whether nothing else may run on its device: it ran short of memory beside others."""
    limit_s: float
    """Wall seconds after which its process is ended."""

    def config(self, folder: Path, gpu: int | None = None) -> Config:
        """Settings of the task's own runs, which lie in its folder."""
        placed = {"runs": str(folder / "runs"), **({} if gpu is None else {"gpu": gpu})}
        return Config.model_validate({**self.settings, **placed})

    def reference(self, folder: Path) -> Path:
        """The task's file: where it came from (its neighbours lie there), else its copy.

        Raises:
            RunError: neither is what the run was begun with.
        """
        for path in (Path(self.task.path), folder / f"{self.task.name}.py"):
            if path.is_file() and digest(path) == self.task.hash:
                return path
        raise RunError(f"task {self.task.key} has changed since this run began; start a new run")

    def kernel(self, folder: Path, foreign: Foreign) -> str:
        """Text of a candidate of somebody else's."""
        return (folder / "kernels" / f"{foreign.id}.py").read_text(encoding="utf-8", errors="replace")

    def failed(self, reason: str) -> TaskResult:
        """The line of a task whose work broke off."""
        return self.result(TaskOutcome.FAILED, reason)

    def result(self, outcome: TaskOutcome, reason: str, **fields: Json) -> TaskResult:
        """A line for the task."""
        task = self.task
        return TaskResult(
            key=task.key, level=task.level, number=task.number, name=task.name, hash=task.hash,
            outcome=outcome, reason=reason, **fields,
        )  # fmt: skip


def stage(job: Job, folder: Path) -> None:
    """Lay a job and copies of its files into its folder.

    Raises:
        RunError: a file is gone, or not what the run was begun with.
    """
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    write_atomically(
        folder / f"{job.task.name}.py", job.reference(folder).read_text(encoding="utf-8", errors="replace")
    )
    for foreign in job.candidates:
        copy = folder / "kernels" / f"{foreign.id}.py"
        if copy.exists() and digest(copy) == foreign.hash:
            continue
        if not Path(foreign.path).is_file() or digest(Path(foreign.path)) != foreign.hash:
            raise RunError(f"kernel {foreign.path} has changed since this run began; start a new run")
        copy.write_bytes(Path(foreign.path).read_bytes())
    write_atomically(folder / JOB, job.model_dump_json(indent=2))


def start_over(job: Job, folder: Path) -> Job:
    """Drop what was recorded of a task that ran short of memory, but not what it needs; it runs alone from now on."""
    shutil.rmtree(folder / "runs", ignore_errors=True)
    for name in (EVENTS, RESULT):
        (folder / name).unlink(missing_ok=True)
    job = job.model_copy(update={"alone": True})
    write_atomically(folder / JOB, job.model_dump_json(indent=2))
    return job


def was_alone(folder: Path) -> bool:
    """Whether a session that was killed had put a task by, to be done alone."""
    try:
        return Job.model_validate_json((folder / JOB).read_text(encoding="utf-8")).alone
    except (FileNotFoundError, ValidationError):
        return False


def digest(path: Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def needed_bytes(kind: SuiteKind, moved: int | None, state: int | None) -> int | None:
    """Device memory that a task takes, about.

    Args:
        kind: what is done to it.
        moved: bytes of a call's inputs and outputs; None if unknown.
        state: bytes of parameters and buffers.
    """
    if moved is None:
        return None
    contexts = CONTEXTS_BYTES.get(kind, MOST_CONTEXTS_BYTES)
    more_calls = max(0, min(BURST_BYTES, BURST_CALLS * moved) - moved)
    return (
        contexts
        + COPIES_MOVED.get(kind, MOST_COPIES_MOVED) * moved
        + COPIES_BURST * more_calls
        + COPIES_STATE * (state or 0)
    )
