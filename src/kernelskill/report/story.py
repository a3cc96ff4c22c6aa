"""What a run amounts to, in words and small tables; terminal and page tell the same story."""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.records import Attempt, Evaluation, Json, Outcome, Run, Status, StopReason
from kernelskill.report import numbers


@dataclass(frozen=True)
class Link:
    """One step of the way from the first version to the winner."""

    attempt: Attempt
    facts: dict[str, Json]
    """Measured facts of the previous candidate that admitted the edit."""
    speedup: float | None
    """Over the candidate it started from, as screened."""


def headline(run: Run) -> str:
    """One sentence: what won, or why nothing did."""
    result = run.result
    if result is None:
        return f"This run has not ended ({len(run.attempts)} attempts so far)."
    if result.stop is StopReason.UNTESTABLE:
        return f"No speedup can be credited: {result.stop_detail}"
    if result.stop is StopReason.NOTHING_TO_GAIN:
        return f"Nothing to gain: {result.stop_detail}."
    if not result.winner_id:
        failed = "was proven to beat it" if result.unproven else "beat it beyond the noise"
        return (
            f"Best stock ({result.winner_arm}) is the answer: none of {len(run.attempts)} attempts {failed}."
            f"{''.join(f' {unproven(item)}' for item in result.unproven)}{_again(run)}"
        )
    speedup, arm = best_speedup(run), bar(run)
    return f"{numbers.ratio(speedup)} over best stock ({arm}), verified."


def _again(run: Run) -> str:
    """What to do where a busy machine may be why nothing is credited."""
    assert run.result is not None
    finalists = [item for item in run.result.unproven if any("busy" in flag for flag in item.labels.flags)]
    if not finalists:
        return ""
    file = f"FOLDER-OF-THE-RUN/candidates/{finalists[0].candidate_id}.py"
    return (
        f" On a quieter machine that may hold; judge it again: kernelskill evaluate {run.task.origin} {file}"
    )


def unproven(promotion: Evaluation) -> str:
    """Why a finalist is not credited, in a sentence with what it came to in fresh processes."""
    if promotion.status is not Status.PASSED:
        return f"Re-timed in fresh processes, {promotion.candidate_id} was {promotion.status.value}."
    least = min(promotion.comparisons, key=lambda item: item.speedup.value)
    busy = next((flag for flag in promotion.labels.flags if "busy" in flag), "within the noise")
    speedup = f"{numbers.interval(least.speedup)} over {least.arm}"
    return f"Re-timed in fresh processes, {promotion.candidate_id} came to {speedup}, not credited: {busy}."


def best_speedup(run: Run) -> float | None:
    """Verified speedup of the winner over the stock arm that it beats by least."""
    found = run.result.promotion.speedup(bar(run)) if run.result and run.result.promotion else None
    return found.value if found else None


def bar(run: Run) -> str:
    """The stock arm that the winner beats by least: the best one, or one near it that did better when re-timed."""
    compared = run.result.promotion.comparisons if run.result and run.result.promotion else ()
    closest = min(compared, key=lambda item: item.speedup.value, default=None)
    return closest.arm if closest else run.baselines.best_arm if run.baselines else "eager"


def winner(run: Run) -> Attempt | None:
    """The winning attempt."""
    if run.result is None or not run.result.winner_id:
        return None
    return next((item for item in run.attempts if item.candidate.id == run.result.winner_id), None)


def skills_of(attempt: Attempt) -> tuple[str, ...]:
    """Skills in the lineage, each once, in order."""
    return tuple(dict.fromkeys(attempt.candidate.skills))


def chain(run: Run) -> tuple[Link, ...]:
    """From the first version to the winner, with the measured facts that led to each step."""
    by_id = {attempt.candidate.id: attempt for attempt in run.attempts}
    links: list[Link] = []
    current = winner(run)
    while current is not None:
        base = current.evaluation.speedup("base") if current.evaluation else None
        links.append(Link(current, current.plan.evidence_facts, base.value if base else None))
        current = by_id.get(current.candidate.parent_id)
    return tuple(reversed(links))


def reason(attempt: Attempt) -> str:
    """Why an attempt led nowhere; empty when it led somewhere."""
    if attempt.outcome is Outcome.DUPLICATE:
        return f"same program as {attempt.duplicate_of}"
    evaluation = attempt.evaluation
    if evaluation is None:
        return ""
    if evaluation.status is not Status.PASSED:
        lines = [line.strip() for line in evaluation.detail.strip().splitlines() if line.strip()]
        return f"{evaluation.status.value}: {lines[-1] if lines else evaluation.hint or 'no detail'}"
    if attempt.outcome is Outcome.NOT_FASTER:
        over = evaluation.speedup("base")
        change = "slower than" if over is not None and over.high < 1 else "no significant change over"
        return f"{change} {attempt.candidate.parent_id} ({numbers.interval(over)})"
    return ""


def time_spent(run: Run) -> dict[str, float]:
    """Wall seconds by kind of step, largest first. A step that contains another counts only its own part."""
    spent: dict[str, float] = {}
    for key, value in run.machine_s.items():
        kind = key.split("/")[0]
        if kind not in {"result", "attempt"}:
            spent[kind] = spent.get(kind, 0.0) + value
    whole = run.machine_s.get("result")
    if whole is not None:
        inside = sum(value for kind, value in spent.items() if kind not in {"describe", "floor", "baselines"})
        spent["write, diagnose, remember"] = max(0.0, whole - inside)
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def summary(run: Run) -> dict[str, Json]:
    """One row for lists; strict JSON."""
    return {
        "id": run.id,
        "task": run.task.name,
        "created": run.created,
        "stop": run.result.stop.value if run.result else None,
        "winner": run.result.winner_id or run.result.winner_arm if run.result else None,
        "speedup_over_best_stock": best_speedup(run),
        "attempts": len(run.attempts),
        "machine_s": round(sum(time_spent(run).values()), 1),
    }
