"""A suite run's folder: what was asked for, one line a finished task, and one process at a time.

suite.json        the manifest; never rewritten
results.jsonl     a finished task a line, flushed to the disk before the next
sessions/*.json   each stretch of work: how long, on what, how idle
tasks/<key>/      the task's own run or journal, its process's log
score.json, results.csv, suite.html   written at the end, or by `suite score`
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from kernelskill.config import Config
from kernelskill.errors import RunError
from kernelskill.journal import write_atomically
from kernelskill.records import Json, SuiteManifest, SuiteSession, SuiteTask, TaskOutcome, TaskResult
from kernelskill.suites.job import LOG, RESULT

MANIFEST, RESULTS, SESSIONS, TASKS = "suite.json", "results.jsonl", "sessions", "tasks"
PLACES = frozenset({"runs", "suites", "cache", "evidence", "gpu", "skills"})
"""Settings that say where things lie, or which of equal devices is meant; they may differ when a run goes on."""
SAME_MACHINE = ("device", "threads", "torch_version", "triton_version", "cuda_version")
"""What must be equal for numbers of one run to belong together."""


class SuiteFolder:
    """One suite run. `hold` it to work on it; reading needs nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = (path / MANIFEST).read_text(encoding="utf-8")
            self.manifest = SuiteManifest.model_validate_json(text)
        except FileNotFoundError as error:
            raise RunError(f"no suite run at {path}; list them with: kernelskill suite list") from error
        except ValidationError as error:
            raise RunError(f"{path / MANIFEST} is not a suite run of this version: {error}") from error
        self._lock: IO[str] | None = None
        self._file: IO[str] | None = None
        self._done: set[str] = set()

    @classmethod
    def create(cls, parent: Path, manifest: SuiteManifest) -> SuiteFolder:
        """Start a suite run.

        Raises:
            RunError: there is one of that name.
        """
        path = parent / manifest.id
        if (path / MANIFEST).exists():
            raise RunError(f"{path} already holds a suite run")
        for name in (SESSIONS, TASKS):
            (path / name).mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
        write_atomically(path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
        return cls(path)

    @property
    def tasks(self) -> Path:
        """Folder of the tasks' own folders."""
        return self.path / TASKS

    def results(self) -> list[TaskResult]:
        """All finished tasks, in the order they finished.

        Raises:
            RunError: a line is not a result of this version.
        """
        path = self.path / RESULTS
        if not path.exists():
            return []
        found = []
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break  # cut short by a kill; it is done again
            try:
                found.append(TaskResult.model_validate_json(line))
            except ValidationError as error:
                raise RunError(f"{path}: line {number} is not a result of this version: {error}") from error
        return found

    def left(self) -> list[SuiteTask]:
        """Selected tasks without a line, in the suite's order."""
        done = {item.key for item in self.results()}
        return [task for task in self.manifest.suite.tasks if task.key not in done]

    def running(self) -> list[str]:
        """Unfinished tasks whose folders show that they were begun."""
        return [task.key for task in self.left() if (self.tasks / task.key / LOG).exists()]

    def sessions(self) -> list[SuiteSession]:
        """Stretches of work so far, oldest first."""
        files = sorted((self.path / SESSIONS).glob("*.json"))
        return [SuiteSession.model_validate_json(file.read_text(encoding="utf-8")) for file in files]

    # -- held by one process -----------------------------------------------------------------------

    def hold(self) -> SuiteFolder:
        """Take the folder for this process; a line cut short by a kill is dropped.

        Raises:
            RunError: another process works on it.
        """
        lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise RunError(f"suite run {self.manifest.id} is being worked on by another process") from error
        self._lock = lock
        path = self.path / RESULTS
        if path.exists():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self._done = {item.key for item in self.results()}
        self._file = path.open("a", encoding="utf-8")
        return self

    def append(self, result: TaskResult) -> None:
        """Write a finished task; on the disk before this returns.

        Raises:
            RunError: the task has a line already.
        """
        assert self._file is not None, "hold() comes first"
        if result.key in self._done:
            raise RunError(f"{self.path / RESULTS}: task {result.key} has a line already")
        self._file.write(result.model_dump_json() + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._done.add(result.key)

    def forget(self, outcomes: Collection[TaskOutcome]) -> int:
        """Drop the lines of these outcomes, so that their tasks go on from where they broke off; how many."""
        assert self._lock is not None, "hold() comes first"
        results = self.results()
        kept = [item for item in results if item.outcome not in outcomes]
        for item in results:
            if item.outcome in outcomes:
                (self.tasks / item.key / RESULT).unlink(missing_ok=True)
        assert self._file is not None
        self._file.close()
        write_atomically(self.path / RESULTS, "".join(item.model_dump_json() + "\n" for item in kept))
        self._file = (self.path / RESULTS).open("a", encoding="utf-8")
        self._done = {item.key for item in kept}
        return len(results) - len(kept)

    def note(self, session: SuiteSession) -> None:
        """Write how a stretch of work goes."""
        write_atomically(
            self.path / SESSIONS / f"{session.id}.json", session.model_dump_json(indent=2) + "\n"
        )

    def release(self) -> None:
        """Let go of the folder."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None


def find_folder(config: Config, name: str) -> SuiteFolder:
    """A suite run by path, id, an unambiguous part of its id, or "last".

    Raises:
        RunError: none or several fit.
    """
    if (Path(name) / MANIFEST).exists():
        return SuiteFolder(Path(name))
    known = list_folders(config)
    if name == "last" and known:
        return SuiteFolder(known[-1])
    fitting = [path for path in known if path.name == name] or [path for path in known if name in path.name]
    if len(fitting) == 1:
        return SuiteFolder(fitting[0])
    if fitting:
        raise RunError(
            f"{name!r} fits {len(fitting)} suite runs: {', '.join(item.name for item in fitting[:5])}"
        )
    raise RunError(f"no suite run {name!r} in {config.runs}; list them with: kernelskill suite list")


def list_folders(config: Config) -> list[Path]:
    """All suite runs, oldest first."""
    found = [path.parent for path in config.runs.glob(f"*/{MANIFEST}")]
    return sorted(found, key=lambda path: _created(path / MANIFEST))


def require_same(old: SuiteManifest, new: SuiteManifest) -> None:
    """Whether a run may go on under what is asked for now.

    Raises:
        RunError: a setting, a task, a kernel or the machine is another; the first few are named.
    """
    differs = differences(old, new)
    if differs:
        raise RunError(
            f"suite run {old.id} was begun with other settings ({'; '.join(differs[:4])}): its numbers would not "
            "belong together. Give the same settings, or another --id for a new run"
        )


def differences(old: SuiteManifest, new: SuiteManifest) -> list[str]:
    """What differs between two runs that numbers could depend on, one line each."""
    return [
        f"{name}: {_short(was)} then, {_short(now)} now" for name, was, now in _pairs(old, new) if was != now
    ]


def settings_of(config: Config) -> dict[str, Json]:
    """Settings as a manifest keeps them."""
    dumped: dict[str, Json] = config.model_dump(mode="json")
    return {name: value for name, value in dumped.items() if name not in {"runs", "gpu"}}


def new_id(suite: str, kind: str) -> str:
    """A name for a run that was given none."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{suite}-{kind}"


def _pairs(old: SuiteManifest, new: SuiteManifest) -> list[tuple[str, Json, Json]]:
    pairs: list[tuple[str, Json, Json]] = [
        ("kind", old.kind, new.kind), ("suite", old.suite.name, new.suite.name),
        ("preset", old.preset, new.preset), ("quick", old.quick, new.quick),
    ]  # fmt: skip
    names = [name for name in {**old.settings, **new.settings} if name not in PLACES]
    pairs += [(name, old.settings.get(name), new.settings.get(name)) for name in names]
    pairs += [(name, old.machine.get(name), new.machine.get(name)) for name in SAME_MACHINE]
    was, now = ({task.key: task.hash for task in item.suite.tasks} for item in (old, new))
    pairs.append(("tasks", sorted(was), sorted(now)))
    pairs += [(f"text of {key}", value, now[key]) for key, value in was.items() if key in now]
    theirs, ours = (
        sorted(foreign.hash for items in item.candidates.values() for foreign in items) for item in (old, new)
    )
    pairs.append(("kernels", theirs, ours))
    return pairs


def _short(value: Json) -> str:
    if isinstance(value, list):
        return f"{len(value)} ({', '.join(str(item)[:24] for item in value[:3])}{', ...' if len(value) > 3 else ''})"
    return str(value)[:80]


def _created(manifest: Path) -> tuple[str, str]:
    try:
        return str(json.loads(manifest.read_text(encoding="utf-8")).get("created", "")), manifest.parent.name
    except (OSError, ValueError):
        return "", manifest.parent.name
