"""What a worker's error reply or death means for a candidate."""

from __future__ import annotations

import re
import signal
from typing import Any

from kernelskill.records import FamilyError, Labels, Status

DETAIL = 4000
"""Longest text taken from a worker, characters."""
MEMORY = re.compile(r"bad_alloc|MemoryError|out of memory|annot allocate memory|can't allocate memory", re.I)
REPORTABLE = frozenset(Status) - {Status.PASSED, Status.NOT_ALLOWED, Status.UNTESTABLE, Status.CRASHED}
"""What a worker may say about itself."""
SEGFAULT_HINT = (
    "an index out of bounds, or a write to an input: inputs are mapped read-only, so a kernel must never write "
    "to its arguments"
)


class WorkerFailure(Exception):
    """A worker could not do what it was asked, and it is the untrusted side's failure.

    Args:
        status: how it counts for a candidate.
        detail: what happened, in the words of the failing side.
        hint: what usually causes this.
    """

    def __init__(self, status: Status, detail: str, hint: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.hint = hint

    @property
    def line(self) -> str:
        """What happened, in one line."""
        lines = [line for line in self.detail.splitlines() if line.strip()]
        return (lines[0] if lines else str(self.status))[:300].encode("utf-8", "replace").decode()


class Wrong(Exception):
    """The candidate does not compute the same; carries the verdict."""

    def __init__(
        self, status: Status, detail: str, hint: str = "", errors: tuple[FamilyError, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.errors = errors
        self.labels = Labels()


def refusal(error: dict[str, Any]) -> WorkerFailure:
    """An error reply."""
    try:
        status = Status(str(error.get("status")))
    except ValueError:
        status = Status.INTEGRITY
    if status not in REPORTABLE:
        status = Status.INTEGRITY
    return WorkerFailure(status, str(error.get("detail", ""))[:DETAIL], str(error.get("hint", ""))[:DETAIL])


def death(code: int | None, output: str) -> WorkerFailure:
    """A worker that ended without an answer.

    Args:
        code: exit code of the outermost process: 128 + signal if the worker was killed, negative if the outermost
            process was killed itself, None if something still held on.
        output: the end of what it printed (a fault handler names the Python line there).
    """
    tail = output.strip()[-2000:]
    said = f"\n{tail}" if tail else ""
    number = 0 if code is None else -code if code < 0 else code - 128 if code > 128 else 0
    if number == signal.SIGXCPU:
        return WorkerFailure(
            Status.TIMEOUT, f"used up its processor time{said}", "an endless loop, or far too slow"
        )
    if number == signal.SIGKILL or (number in (signal.SIGABRT, 0) and code != 0 and MEMORY.search(tail)):
        return WorkerFailure(Status.OUT_OF_MEMORY, f"killed for lack of memory{said}", "allocate less")
    if number:
        hint = SEGFAULT_HINT if number in (signal.SIGSEGV, signal.SIGBUS) else ""
        return WorkerFailure(Status.CRASHED, f"killed by {_name(number)}{said}", hint)
    how = "hung up" if code is None else f"exit code {code}"
    return WorkerFailure(
        Status.CRASHED, f"left without an answer ({how}){said}", "the source must not end the process"
    )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
