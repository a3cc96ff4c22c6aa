"""The folder of one run, and the rule that makes it resumable: a step's record is on disk before the next begins.

`Journal.step(key, kind, produce)` returns the record of that step if it is in the journal, and otherwise makes
it, appends it (one line, flushed to the disk) and returns it. Resuming a run is running the same loop again:
what was measured is read back, and only what was not recorded is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

from pydantic import ValidationError

from kernelskill.errors import RunError
from kernelskill.records import (
    Attempt,
    Baselines,
    Floor,
    Json,
    Record,
    Result,
    Round,
    Run,
    Workload,
)
from kernelskill.records.model import CallSummary, ModelCall

R = TypeVar("R", bound=Record)

MANIFEST = "run.json"
EVENTS = "events.jsonl"
MODEL_CALLS = "llm"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step, so that a killed run leaves the old or the new text, never half of one."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


class Journal:
    """One run's folder, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = _lock(folder)
        self._events: dict[str, Json] = {}
        self.seconds: dict[str, float] = {}
        """Wall seconds of each recorded step."""
        self._steps_done = 0.0
        _drop_cut_line(folder / EVENTS)
        try:
            for event in _read_events(folder / EVENTS):
                self._events[event["step"]] = event["value"]
                self.seconds[event["step"]] = event["seconds"]
        except RunError:
            self._lock.close()
            raise
        self._file: IO[str] = (folder / EVENTS).open("a", encoding="utf-8")

    @classmethod
    def create(cls, folder: Path, manifest: Run) -> Journal:
        """Start a run in a new folder.

        Raises:
            RunError: the folder already holds a run.
        """
        if (folder / MANIFEST).exists():
            raise RunError(f"{folder} already holds a run; resume it with: kernelskill resume {folder.name}")
        for name in ("candidates", "evaluations"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        write_atomically(folder / MANIFEST, manifest.model_dump_json(indent=2))
        return cls(folder)

    @property
    def spent_s(self) -> float:
        """Wall seconds of the steps passed so far in this walk of the loop, recorded or new."""
        return self._steps_done

    def has(self, key: str) -> bool:
        """Whether a step is already recorded."""
        return key in self._events

    def step(self, key: str, kind: type[R], produce: Callable[[], R]) -> R:
        """The record of a step: read back if it was made before, made and written otherwise."""
        record = self.optional(key, kind, produce)
        if record is None:
            raise RunError(f"{self.folder / EVENTS}: step {key} is recorded without its {kind.__name__}")
        return record

    def optional(self, key: str, kind: type[R], produce: Callable[[], R | None]) -> R | None:
        """Like `step`, for a step that may decide for nothing."""
        if key not in self._events:
            began = time.monotonic()
            record = produce()
            self._append(key, kind, record, time.monotonic() - began)
            self._steps_done += self.seconds[key]
            return record
        self._steps_done += self.seconds[key]
        value = self._events[key]
        try:
            return None if value is None else kind.model_validate(value)
        except ValidationError as error:
            raise RunError(
                f"{self.folder / EVENTS}: step {key} is not a {kind.__name__} of this version: {error}"
            ) from error

    def keep(self, name: str, text: str) -> None:
        """Write a file of the run (candidates/c003.py, report.html, ...)."""
        write_atomically(self.folder / name, text)

    def close(self) -> None:
        """Let go of the folder."""
        self._file.close()
        self._lock.close()

    def _append(self, key: str, kind: type[Record], record: Record | None, seconds: float) -> None:
        value = None if record is None else record.model_dump(mode="json")
        event = {
            "step": key,
            "kind": kind.__name__,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": round(seconds, 4),
            "value": value,
        }
        self._file.write(json.dumps(event, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._events[key] = value
        self.seconds[key] = round(seconds, 4)


def _lock(folder: Path) -> IO[str]:
    """Hold the folder for this process; the kernel lets go of it when the process ends, however it ends."""
    if not folder.is_dir():
        raise RunError(f"no run at {folder}; list runs with: kernelskill runs")
    file = (folder / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise RunError(f"run {folder.name} is being worked on by another process") from error
    return file


def _read_events(path: Path) -> Iterator[dict[str, Json]]:
    """All whole lines. A last line cut short by a kill is left out."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            return
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise RunError(f"{path}: line {number} is not JSON ({error})") from error


def _drop_cut_line(path: Path) -> None:
    """Remove what a killed run wrote of a line, so that the next line starts fresh."""
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)


def load_run(folder: Path) -> Run:
    """The run as its folder tells it, finished or not.

    Raises:
        RunError: no readable run there.
    """
    try:
        manifest = Run.model_validate_json((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"no run at {folder}; list runs with: kernelskill runs") from error
    except ValidationError as error:
        raise RunError(f"{folder / MANIFEST} is not a run of this version: {error}") from error
    events = {}
    seconds = {}
    for event in _read_events(folder / EVENTS):
        events[event["step"]] = event["value"]
        seconds[event["step"]] = event["seconds"]

    def one(key: str, kind: type[R]) -> R | None:
        return kind.model_validate(events[key]) if events.get(key) is not None else None

    def many(prefix: str, kind: type[R]) -> tuple[R, ...]:
        return tuple(
            kind.model_validate(value) for key, value in events.items() if key.startswith(prefix) and value
        )

    return manifest.model_copy(
        update={
            "workload": one("describe", Workload),
            "floor": one("floor", Floor),
            "baselines": one("baselines", Baselines),
            "rounds": many("observe/", Round),
            "attempts": many("attempt/", Attempt),
            "result": one("result", Result),
            "machine_s": seconds,
            "model_calls": _model_calls(folder / MODEL_CALLS),
        }
    )


def _model_calls(folder: Path) -> tuple[CallSummary, ...]:
    """Calls of language models in the order in which they were made, without their texts."""
    try:
        calls = [ModelCall.model_validate_json(path.read_text("utf-8")) for path in folder.glob("*.json")]
    except ValidationError as error:
        raise RunError(f"{folder}: a model call is not of this version: {error}") from error
    return tuple(call.summary() for call in sorted(calls, key=lambda call: call.at))
