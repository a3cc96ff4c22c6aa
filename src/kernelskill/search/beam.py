"""Several bases at a time: the fastest few verified programs are worked on in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from kernelskill.records import Attempt
from kernelskill.search.verified import Verified


class BeamStrategy(Verified):
    """Implements `protocols.Strategy`. A second-best version may stand on the better hill.

    Args:
        width: programs that are kept.
    """

    def __init__(self, width: int = 3) -> None:
        self.width = width

    def base(self, attempts: Sequence[Attempt], spent: Container[str]) -> Attempt | None:
        """The member of the beam that was worked on least, the fastest of equals; None where all are spent."""
        members = [item for item in self.beam(attempts) if item.candidate.id not in spent]
        tries = Counter(item.plan.base_id for item in attempts)
        return min(members, key=lambda item: tries[item.candidate.id], default=None)

    def beam(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """The fastest verified programs, fastest first."""
        return self.ranked(attempts)[: self.width]
