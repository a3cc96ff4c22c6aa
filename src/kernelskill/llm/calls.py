"""Every call on disk: `llm/<key>.json` in the run's folder, whole before the call and again after its reply."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pydantic import ValidationError

from kernelskill.errors import RunError
from kernelskill.llm.secrets import blotted
from kernelskill.records.model import ModelCall, Spent

FOLDER = "llm"


class CallFolder:
    """The calls of one run, by their place in it; kept in memory only where there is no folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._calls = {call.key: call for call in (read_calls(folder) if folder else ())}

    def find(self, key: str) -> ModelCall | None:
        """The call at a place, answered or not."""
        return self._calls.get(key)

    def all(self) -> tuple[ModelCall, ...]:
        """Every call, in the order in which they were made."""
        return tuple(sorted(self._calls.values(), key=lambda call: call.at))

    def keep(self, call: ModelCall) -> None:
        """Write a call; a reader sees the old record or the new one, never half of one."""
        with self._lock:
            self._calls[call.key] = call
            if self._folder is None:
                return
            text = blotted(call.model_dump_json(indent=2))
            path = self._folder / f"{call.key}.json"
            self._folder.mkdir(exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            with partial.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)

    def spent(self) -> Spent:
        """By all calls so far; one without a reply counts at its worst."""
        return sum((call.spent + call.lost for call in self._calls.values()), Spent())


def read_calls(folder: Path) -> tuple[ModelCall, ...]:
    """All calls of a run, in the order in which they were made; none where there is no such folder.

    Raises:
        RunError: a record cannot be read.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(ModelCall.model_validate_json(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            raise RunError(f"{path} is not a model call of this version: {error}") from error
    return tuple(sorted(found, key=lambda call: call.at))
