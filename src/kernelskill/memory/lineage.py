"""Who descends from whom."""

from __future__ import annotations

from collections.abc import Iterable

from kernelskill.records import Attempt


def ancestors(attempts: Iterable[Attempt], candidate_id: str) -> tuple[str, ...]:
    """The candidate and all that it descends from, nearest first; the captured reference ("") is not named."""
    parents = {attempt.candidate.id: attempt.candidate.parent_id for attempt in attempts}
    line: list[str] = []
    current = candidate_id
    while current and current not in line:
        line.append(current)
        current = parents.get(current, "")
    return tuple(line)


def chain(attempts: Iterable[Attempt], candidate_id: str) -> tuple[Attempt, ...]:
    """The attempts that lead from the captured reference to a candidate, first version first.

    Each carries in its plan what was done and the facts of the version before it that admitted that
    (`plan.evidence_facts`). Empty for an unknown candidate.
    """
    known = tuple(attempts)
    by_id = {attempt.candidate.id: attempt for attempt in known}
    line = ancestors(known, candidate_id)
    return tuple(by_id[name] for name in reversed(line) if name in by_id)
