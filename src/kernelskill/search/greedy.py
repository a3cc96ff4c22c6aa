"""The fastest verified candidate is the base; what is not faster beyond the noise never is."""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.records import Attempt, Evaluation, Interval, Status


class GreedyStrategy:
    """Implements `protocols.Strategy`. Small true gains compound: no fixed step is asked for, only significance."""

    def is_better(self, attempt: Attempt) -> bool:
        """Whether the interval over the base lies above 1 and its median past the A/A band."""
        evaluation = attempt.evaluation
        if evaluation is None or evaluation.status is not Status.PASSED:
            return False
        return any(item.arm == "base" and item.significant for item in evaluation.comparisons)

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
        over_base = evaluation.speedup("base")
        if over_base is not None and attempt.plan.base_id in scores:
            return scores[attempt.plan.base_id] * over_base.value
        stock = over_best_stock(evaluation)
        return stock.value if stock else None


def over_best_stock(evaluation: Evaluation) -> Interval | None:
    """Speedup over the fastest stock arm that was compared."""
    stock = [item.speedup for item in evaluation.comparisons if item.arm != "base"]
    return min(stock, key=lambda speedup: speedup.value, default=None)
