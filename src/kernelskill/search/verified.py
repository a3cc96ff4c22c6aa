"""What every strategy agrees on: only what is verified counts, and only what is beyond the noise is faster."""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.records import Attempt, Comparison, Evaluation, Interval, Retrieval, Status

BASE = "base"
"""Arm of the candidate that an edit started from."""
FINALISTS = 2
"""Candidates that are re-timed in fresh processes at most, fastest first; of each author one at least."""


class Verified:
    """Ranks attempts. Strategies differ in what they work on next, never in what counts as faster."""

    def is_better(self, attempt: Attempt) -> bool:
        """Whether it is verified and faster than its base (a first version: than best stock) beyond the noise."""
        evaluation = attempt.evaluation
        if evaluation is None or evaluation.status is not Status.PASSED:
            return False
        arms = [item for item in evaluation.comparisons if (item.arm == BASE) == bool(attempt.plan.base_id)]
        slowest = min(arms, key=lambda item: item.speedup.value, default=None)
        return slowest is not None and _is_beyond_noise(slowest)

    def best_of(self, attempts: Sequence[Attempt]) -> Attempt | None:
        """The verified attempt with the largest speedup over best stock; the earlier one of equals."""
        return next(iter(self.ranked(attempts)), None)

    def ranked(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Verified attempts by speedup over best stock, fastest first, the earlier one of equals first.

        A descendant that was measured faster than its base in paired rounds counts as faster than it, whatever
        the two screens, taken at different times, say about best stock.
        """
        found = scores(attempts)
        passed = [attempt for attempt in attempts if attempt.candidate.id in found]
        return sorted(passed, key=lambda attempt: -found[attempt.candidate.id])

    def finalists(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """What is re-timed at the end, likeliest winner first."""
        ranked = self.ranked(attempts)
        return self.of_each_author([item for item in ranked if may_win(item)][:FINALISTS], attempts)

    def of_each_author(self, chosen: Sequence[Attempt], attempts: Sequence[Attempt]) -> list[Attempt]:
        """These, and after them the best of every author who has none among them.

        Where what a model made of it does not hold in fresh processes, the expert's own version still may.
        """
        authors = {item.candidate.author for item in chosen}
        best = {item.candidate.author: item for item in reversed(self.ranked(attempts)) if may_win(item)}
        return [*chosen, *(item for author, item in best.items() if author not in authors)]

    def order(self, base: Attempt, retrieval: Retrieval, attempts: Sequence[Attempt]) -> Retrieval:
        """The admitted skills as the gate ranks them."""
        del base, attempts
        return retrieval


def scores(attempts: Sequence[Attempt]) -> dict[str, float]:
    """Candidate -> estimated speedup over best stock; verified ones only."""
    found: dict[str, float] = {}
    for attempt in attempts:
        score = _score(attempt, found)
        if score is not None:
            found[attempt.candidate.id] = score
    return found


def may_win(attempt: Attempt) -> bool:
    """Whether its screen leaves any hope that it is faster than best stock: a promotion takes a minute."""
    stock = over_best_stock(attempt.evaluation) if attempt.evaluation else None
    return stock is None or stock.high >= 1


def over_best_stock(evaluation: Evaluation) -> Interval | None:
    """Speedup over the fastest stock arm that was compared."""
    stock = [item.speedup for item in evaluation.comparisons if item.arm != BASE]
    return min(stock, key=lambda speedup: speedup.value, default=None)


def _score(attempt: Attempt, known: dict[str, float]) -> float | None:
    evaluation = attempt.evaluation
    if evaluation is None or evaluation.status is not Status.PASSED:
        return None
    over_base = evaluation.speedup(BASE)
    if over_base is not None and attempt.plan.base_id in known:
        return known[attempt.plan.base_id] * over_base.value
    stock = over_best_stock(evaluation)
    return stock.value if stock else None


def _is_beyond_noise(item: Comparison) -> bool:
    """The judge's own word on significance, and the interval checked again."""
    return item.significant and item.speedup.low > 1
