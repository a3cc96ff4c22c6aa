"""What a run remembers, enforced in code: the same edit is never tried twice where it cannot help.

An edit is known by its meaning (skill, site, action, parameters). It is refused on a base where it was tried, and
below an ancestor where it failed or gave nothing; a program that was judged once is never judged again under another
name. Feeding the same attempts in gives the same answers, so a resumed run decides as the killed one did.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.memory.lineage import ancestors
from kernelskill.records import Attempt, Edit, Outcome, Status


class RunMemory:
    """Short-term memory; implements `protocols.Memory`."""

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._tried: dict[tuple[str, str], Attempt] = {}
        self._programs: dict[str, str] = {}

    def add(self, attempt: Attempt) -> None:
        """Remember an attempt."""
        self._attempts.append(attempt)
        for edit in attempt.plan.edits:
            # Of a plan of several edits only the last was new: the others belong to the way to it.
            if len(attempt.plan.edits) == 1 or edit is attempt.plan.edits[-1]:
                self._tried.setdefault((attempt.plan.base_id, edit.key), attempt)
        candidate = attempt.candidate
        if candidate.program_hash and attempt.evaluation is not None:
            self._programs.setdefault(candidate.program_hash, candidate.id)

    def tried(self, base_id: str, edit: Edit) -> str:
        """Why the edit must not be tried on this base; "" if it may."""
        for distance, ancestor in enumerate(ancestors(self._attempts, base_id) or (base_id,)):
            attempt = self._tried.get((ancestor, edit.key))
            if attempt is None:
                continue
            if distance == 0:
                return f"tried on {ancestor} as {attempt.candidate.id}: {attempt.outcome.value}"
            if attempt.outcome is Outcome.NEW_BASE:
                return f"already part of the lineage since {attempt.candidate.id}"
            return f"{_verdict(attempt)} on {ancestor}, an ancestor of {base_id}, as {attempt.candidate.id}"
        return ""

    def known(self, program_hash: str) -> str:
        """Id of a candidate with the same program that was judged, or ""."""
        return self._programs.get(program_hash, "")

    def attempts(self) -> Sequence[Attempt]:
        """All attempts in order."""
        return tuple(self._attempts)


def _verdict(attempt: Attempt) -> str:
    if attempt.evaluation is not None and attempt.evaluation.status is not Status.PASSED:
        return f"failed ({attempt.evaluation.status.value})"
    return "gave nothing"
