"""The fastest verified candidate is the base; what is not faster beyond the noise never is."""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.records import Attempt, Comparison, Evaluation, Interval, Status

BASE = "base"
"""Arm of the candidate that an edit started from."""


class GreedyStrategy:
    """Implements `protocols.Strategy`. Small true gains compound: no fixed step is asked for, only significance."""

    def is_better(self, attempt: Attempt) -> bool:
        """Whether it is verified and faster than its base (a first version: than best stock) beyond the noise."""
        evaluation = attempt.evaluation
        if evaluation is None or evaluation.status is not Status.PASSED:
            return False
        arms = [item for item in evaluation.comparisons if (item.arm == BASE) == bool(attempt.plan.base_id)]
        slowest = min(arms, key=lambda item: item.speedup.value, default=None)
        return slowest is not None and _is_beyond_noise(slowest)

    def best_of(self, attempts: Sequence[Attempt]) -> Attempt | None:
        """The verified attempt with the largest speedup over best stock; the earlier one of equals.

        A descendant that was measured faster than its base in paired rounds counts as faster than it, whatever
        the two screens, taken at different times, say about best stock.
        """
        scores: dict[str, float] = {}
        best: Attempt | None = None
        for attempt in attempts:
            score = self._score(attempt, scores)
            if score is None:
                continue
            scores[attempt.candidate.id] = score
            if best is None or score > scores[best.candidate.id]:
                best = attempt
        return best

    def _score(self, attempt: Attempt, scores: dict[str, float]) -> float | None:
        evaluation = attempt.evaluation
        if evaluation is None or evaluation.status is not Status.PASSED:
            return None
        over_base = evaluation.speedup(BASE)
        if over_base is not None and attempt.plan.base_id in scores:
            return scores[attempt.plan.base_id] * over_base.value
        stock = over_best_stock(evaluation)
        return stock.value if stock else None


def over_best_stock(evaluation: Evaluation) -> Interval | None:
    """Speedup over the fastest stock arm that was compared."""
    stock = [item.speedup for item in evaluation.comparisons if item.arm != BASE]
    return min(stock, key=lambda speedup: speedup.value, default=None)


def _is_beyond_noise(item: Comparison) -> bool:
    """The judge's own word on significance, and the interval checked again."""
    return item.significant and item.speedup.low > 1
