"""One base at a time: what is faster than it beyond the noise takes its place; what is not never does."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kernelskill.records import Attempt, Outcome
from kernelskill.search.verified import Verified, may_win


class GreedyStrategy(Verified):
    """Implements `protocols.Strategy`. Small true gains compound: no fixed step is asked for, only significance."""

    def base(self, attempts: Sequence[Attempt], spent: Container[str]) -> Attempt | None:
        """The newest base, at first the best first version; None once nothing is left to try on it."""
        current = self._current(attempts)
        return None if current is None or current.candidate.id in spent else current

    def finalists(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """What looks fastest, then the base where that is another one.

        An edit whose gain over the base a busy machine hides may still be the faster program against stock; the
        promotion in fresh processes decides.
        """
        both = [item for item in (self.best_of(attempts), self._current(attempts)) if item is not None]
        chosen = [item for item in {item.candidate.id: item for item in both}.values() if may_win(item)]
        return self.of_each_author(chosen, attempts)

    def _current(self, attempts: Sequence[Attempt]) -> Attempt | None:
        newest = next((item for item in reversed(attempts) if item.outcome is Outcome.NEW_BASE), None)
        return newest or self.best_of([item for item in attempts if item.outcome is Outcome.SEED])
