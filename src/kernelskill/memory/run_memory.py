"""What a run remembers, enforced in code: the same edit is never tried twice where it cannot help.

An edit is known by its meaning (skill, site, action, parameters):
- on a base where it was tried alone, it is not tried again;
- below a base where it failed, it is not tried again; where it merely gave nothing, it gets one second chance;
- what is already part of a lineage is not done to it again.
An edit that was tried together with others is blamed only where trying the others without it succeeded.
A program that was judged once is never judged again under another name.
Feeding the same attempts in gives the same answers, so a resumed run decides as the killed one did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kernelskill.memory.lineage import ancestors
from kernelskill.records import Attempt, Edit, Outcome, Status

CHANCES = 2
"""Times that an edit may give nothing within one lineage before it is given up."""
_SILENT = frozenset({Status.PASSED, Status.UNTESTABLE})
"""Verdicts that say nothing against an edit."""


class RunMemory:
    """Short-term memory; implements `protocols.Memory`."""

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        self._attempts: list[Attempt] = []
        self._alone: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        self._together: dict[str, list[tuple[frozenset[str], Attempt]]] = defaultdict(list)
        self._blamed: dict[tuple[str, str], str] = {}
        self._keys: dict[str, frozenset[str]] = {}
        self._programs: dict[str, str] = {}
        for attempt in attempts:
            self.add(attempt)

    def add(self, attempt: Attempt) -> None:
        """Remember an attempt."""
        self._attempts.append(attempt)
        base, candidate = attempt.plan.base_id, attempt.candidate
        keys = frozenset(edit.key for edit in attempt.plan.edits)
        self._keys[candidate.id] = keys
        if len(keys) == 1:
            self._alone[base, next(iter(keys))].append(attempt)
        self._blame(base, keys, attempt)
        self._together[base].append((keys, attempt))
        if candidate.program_hash and attempt.evaluation is not None:
            self._programs.setdefault(candidate.program_hash, candidate.id)

    def tried(self, base_id: str, edit: Edit) -> str:
        """Why the edit must not be tried on this base; "" if it may."""
        line = ancestors(self._attempts, base_id)
        for name in line:
            if edit.key in self._keys.get(name, ()):
                return f"part of {name} already"
        fruitless: list[Attempt] = []
        for base in (*line, "") if base_id else ("",):
            if (base, edit.key) in self._blamed:
                return self._blamed[base, edit.key]
            for attempt in self._alone.get((base, edit.key), ()):
                if base == base_id:
                    return f"tried on {_title(base)} as {attempt.candidate.id}: {_verdict(attempt)}"
                if _failed(attempt):
                    return f"{_verdict(attempt)} on {_title(base)}, an ancestor, as {attempt.candidate.id}"
                if attempt.outcome is Outcome.NOT_FASTER:
                    fruitless.append(attempt)
        if len(fruitless) >= CHANCES:
            names = ", ".join(attempt.candidate.id for attempt in reversed(fruitless))
            return f"not faster {len(fruitless)} times in this lineage ({names})"
        return ""

    def known(self, program_hash: str) -> str:
        """Id of a candidate with the same program that was judged, or ""."""
        return self._programs.get(program_hash, "")

    def attempts(self) -> Sequence[Attempt]:
        """All attempts in order."""
        return tuple(self._attempts)

    def _blame(self, base: str, keys: frozenset[str], attempt: Attempt) -> None:
        """If two plans on a base differ in one edit and only the one with it failed, that edit is to blame."""
        for others, other in self._together[base]:
            for more, failed, fewer, passed in (
                (keys, attempt, others, other),
                (others, other, keys, attempt),
            ):
                if fewer < more and len(more - fewer) == 1 and _failed(failed) and _passed(passed):
                    culprit = next(iter(more - fewer))
                    self._blamed.setdefault(
                        (base, culprit),
                        f"{failed.candidate.id} {_verdict(failed)} with it, "
                        f"{passed.candidate.id} passed without it",
                    )


def _failed(attempt: Attempt) -> bool:
    return attempt.evaluation is not None and attempt.evaluation.status not in _SILENT


def _passed(attempt: Attempt) -> bool:
    return attempt.evaluation is not None and attempt.evaluation.status is Status.PASSED


def _verdict(attempt: Attempt) -> str:
    if attempt.evaluation is None:
        return f"the same program as {attempt.duplicate_of}"
    if attempt.evaluation.status is not Status.PASSED:
        cause = f", {attempt.diagnosis.cause}" if attempt.diagnosis else ""
        return f"failed ({attempt.evaluation.status.value}{cause})"
    return attempt.outcome.value


def _title(base_id: str) -> str:
    return base_id or "the captured reference"
