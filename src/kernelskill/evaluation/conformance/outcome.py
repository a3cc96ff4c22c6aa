"""Whether a verdict is the right one for a case, and how much credit it gives."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kernelskill.evaluation.conformance.case import Case
from kernelskill.records import Comparison, Evaluation, Status

NOT_STOCK = frozenset({"base", "candidate"})


@dataclass(frozen=True)
class Outcome:
    """One case, judged."""

    case: Case
    verdict: str
    """Status of the evaluation, or "untestable"."""
    detail: str
    credit: float | None
    """Speedup over the best stock arm that is credited, at the lower end of its interval; None for none."""
    seconds: float
    miss: str
    """What is wrong about the verdict ("" = it is right)."""


def credit_of(evaluation: Evaluation) -> float | None:
    """Speedup that a verdict credits: the lower end of the interval over the best stock arm.

    A candidate is credited if it passed, and its comparison with the fastest stock arm is a significant one: the lower
    end lies above 1 and the estimate past the A/A band, as for every win. Wins over slower arms are no credit.
    """
    if evaluation.status is not Status.PASSED:
        return None
    best = _best_stock(evaluation)
    return best.speedup.low if best is not None and best.significant else None


def stock_speedup(evaluation: Evaluation) -> float | None:
    """Median speedup over the best stock arm, significant or not; None where the candidate did not pass."""
    best = _best_stock(evaluation) if evaluation.status is Status.PASSED else None
    return best.speedup.value if best is not None else None


def outcome(case: Case, evaluation: Evaluation, seconds: float) -> Outcome:
    """The case with its verdict, whose detail names no folder of this machine."""
    credit = credit_of(evaluation)
    detail = (evaluation.detail.splitlines() or [""])[0].replace(sys.executable, "python")
    return Outcome(case, evaluation.status.value, detail, credit, seconds, _miss(case, evaluation, credit))


def untestable(case: Case, reason: str, seconds: float) -> Outcome:
    """A case whose task was refused with this reason ("" = it was not)."""
    due = case.expect == "untestable"
    miss = "" if bool(reason) == due else f"the task is refused: {reason}" if reason else "the task is taken"
    return Outcome(case, "untestable" if reason else "testable", reason, None, seconds, miss)


def _miss(case: Case, evaluation: Evaluation, credit: float | None) -> str:
    passed = evaluation.status is Status.PASSED
    if case.expect == "accepted":
        if not passed:
            return f"an honest candidate is refused: {evaluation.status}"
        lacking = sorted(set(case.labels) - set(evaluation.labels.kinds))
        return f"it lacks the label {', '.join(lacking)}" if lacking else ""
    if case.expect == "not-allowed":
        return "" if not passed else "it passes where only kernels of one's own may"
    if case.expect == "refused":
        return "a cheat passes" if passed else ""
    band = evaluation.noise_band_ratio or 0.0
    if credit is not None and credit > case.honest_ratio * (1 + band):
        return f"credited with {credit:.2f}x; its honest time is worth {case.honest_ratio:.2f}x"
    return ""


def _best_stock(evaluation: Evaluation) -> Comparison | None:
    times = {item.arm: item.median_ms for item in evaluation.timings if item.arm not in NOT_STOCK}
    stock = [item for item in evaluation.comparisons if item.arm in times]
    return min(stock, key=lambda item: times[item.arm], default=None)
