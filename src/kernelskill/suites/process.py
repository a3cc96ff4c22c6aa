"""One task on its way: begun, waited for, ended when it takes too long."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from pydantic import ValidationError

from kernelskill.records import TaskResult
from kernelskill.suites.job import LOG, RESULT, Job
from kernelskill.suites.place import Place


class TaskProcess:
    """A task that is being worked on.

    Args:
        job: laid into `folder` already (`job.stage`).
        folder: of the task.
        place: the process that does it.
        alone: whether nothing else runs on its device, so that a lack of memory is the task's own.
    """

    def __init__(self, job: Job, folder: Path, place: Place, alone: bool) -> None:
        self.job = job
        self.folder = folder
        self.place = place
        self.alone = alone
        self._began = time.monotonic()
        (folder / RESULT).unlink(missing_ok=True)
        place.begin(folder)

    @property
    def left_s(self) -> float:
        """Seconds until its limit."""
        return self.job.limit_s - (time.monotonic() - self._began)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.place.answered

    def collect(self) -> tuple[TaskResult, bool]:
        """Its line once it has ended, and whether it came to an end by itself.

        A process that left no line died: the line says by what.
        """
        late = self.left_s <= 0 and not self.ended
        if late:
            self.place.end()
        code = None if late else self.place.settle()
        wall_s = round(time.monotonic() - self._began, 3)
        result = left_result(self.folder, self.job)
        if result is not None:
            return result.model_copy(update={"wall_s": wall_s}), True
        if late:
            reason = f"took longer than {self.job.limit_s:.0f} s"
        elif code is None:
            reason = f"it left no line{_last_words(self.folder / LOG)}"
        else:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            reason = f"its process ended by {how}{_last_words(self.folder / LOG)}"
        return self.job.failed(reason).model_copy(update={"wall_s": wall_s}), late


def left_result(folder: Path, job: Job) -> TaskResult | None:
    """The line that a process left in a task's folder, if it is of this version and this task."""
    try:
        result = TaskResult.model_validate_json((folder / RESULT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None
    return result if (result.key, result.hash) == (job.task.key, job.task.hash) else None


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"; last said: {lines[-1].strip()[:200]}" if lines else ""
