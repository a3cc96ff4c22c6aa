"""A population with an archive: the fastest program of every kind is kept, and any of them may have the next child.

Kinds are told apart by the skills that made a program (the cells of MAP-Elites, Mouret and Clune, arXiv:1504.04909), so
that a structurally other program isn't crowded out by variants of the fastest. A child is one admitted edit, drawn with
odds that follow what the gate expects of it. Draws depend on the attempts so far alone: a resumed run draws the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Container, Sequence

from kernelskill.records import Attempt, GateDecision, Retrieval
from kernelskill.search.verified import Verified, scores

Cell = tuple[str, ...]
SHARPNESS = 8.0
"""How much likelier an expected gain makes an edit: odds grow with the expected speedup to this power."""


class EvolutionStrategy(Verified):
    """Implements `protocols.Strategy`.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def archive(self, attempts: Sequence[Attempt]) -> dict[Cell, Attempt]:
        """Kind of program -> its fastest verified one."""
        found: dict[Cell, Attempt] = {}
        for attempt in self.ranked(attempts):
            found.setdefault(tuple(sorted(set(attempt.candidate.skills))), attempt)
        return found

    def base(self, attempts: Sequence[Attempt], spent: Container[str]) -> Attempt | None:
        """A parent from the archive, faster ones likelier; None where all are spent."""
        elites = [item for item in self.archive(attempts).values() if item.candidate.id not in spent]
        if not elites:
            return None
        known = scores(attempts)
        weights = [known[item.candidate.id] ** 2 for item in elites]
        return self._draws(attempts, "parent").choices(elites, weights)[0]

    def order(self, base: Attempt, retrieval: Retrieval, attempts: Sequence[Attempt]) -> Retrieval:
        """The admitted decisions in a drawn order, those that the gate expects more of likelier first."""
        draws = self._draws(attempts, f"child of {base.candidate.id}")
        admitted = [item for item in retrieval.decisions if item.admitted]
        refused = [item for item in retrieval.decisions if not item.admitted]
        drawn = sorted(admitted, key=lambda item: math.log(1 - draws.random()) / _weight(item), reverse=True)
        return retrieval.model_copy(update={"decisions": (*drawn, *refused)})

    def _draws(self, attempts: Sequence[Attempt], what: str) -> random.Random:
        return random.Random(f"{self.seed}/{len(attempts)}/{what}")


def _weight(decision: GateDecision) -> float:
    """Weight of a draw without replacement: the largest log(u) / weight comes first (Efraimidis and Spirakis 2006)."""
    return float(max(decision.expected_speedup or 1.0, 0.1) ** SHARPNESS)
