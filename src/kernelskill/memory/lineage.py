"""Who descends from whom."""

from __future__ import annotations

from collections.abc import Iterable

from kernelskill.records import Attempt


def ancestors(attempts: Iterable[Attempt], candidate_id: str) -> tuple[str, ...]:
    """The candidate and all that it descends from, nearest first."""
    parents = {attempt.candidate.id: attempt.candidate.parent_id for attempt in attempts}
    line: list[str] = []
    current = candidate_id
    while current and current not in line:
        line.append(current)
        current = parents.get(current, "")
    return tuple(line)
