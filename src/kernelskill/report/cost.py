"""What language models cost, by role and by round, and whether what they predicted came true."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernelskill.records import Attempt, Facts, Run
from kernelskill.records.model import CallSummary, Expectation, Spent
from kernelskill.report import numbers

SAME = 0.05
"""Relative change below which a measured fact counts as unchanged."""


@dataclass(frozen=True)
class CostRow:
    """Calls of one role or round, added up."""

    name: str
    calls: int
    input_tokens: int | None
    """None where a server did not count."""
    output_tokens: int | None
    usd: float | None
    """None where a price is not known."""
    seconds: float
    largest_prompt: int
    """Characters."""


@dataclass(frozen=True)
class Prediction:
    """One change that a plan predicted, and what was measured on the version that it led to."""

    candidate_id: str
    expectation: Expectation
    after: float | None
    """None where the version was never measured again, as only a base and the winner are."""
    came_true: bool | None


def by_role(run: Run) -> tuple[CostRow, ...]:
    """One row a role, and their sum."""
    return _rows(run.model_calls, lambda call: call.role)


def by_round(run: Run) -> tuple[CostRow, ...]:
    """One row a round (0 = first versions), and their sum."""
    rounds = {item.candidate.id: item.round for item in run.attempts}
    based = {item.base_id: item.index for item in reversed(run.rounds)}

    def round_of(call: CallSummary) -> str:
        _, about, _ = call.key.split(".", 2)
        if call.role == "generator":
            return "0"
        if call.role == "feature-reader":
            return str(based.get(about, "?"))
        if call.role == "planner":
            place = int(about.rpartition("-")[2])
            later = [item.round for item in run.attempts if item.index >= place]
            return str(later[0] if later else max([item.index for item in run.rounds], default=0))
        return str(rounds.get(about, "?"))

    return _rows(run.model_calls, round_of)


def predictions(run: Run) -> tuple[Prediction, ...]:
    """Every prediction of the run, in order."""
    measured = {item.base_id: item.facts for item in run.rounds}
    return tuple(
        _compared(attempt, expectation, measured.get(attempt.candidate.id))
        for attempt in run.attempts
        if attempt.plan.intent is not None
        for expectation in attempt.plan.intent.expects
    )


def headline(run: Run) -> str:
    """One sentence: calls, tokens, dollars, and where the prices are from."""
    total = by_role(run)[-1]
    prices = sorted({call.price_source for call in run.model_calls if call.price_source})
    replayed = all(call.replayed for call in run.model_calls)
    dollars = "no price known" if total.usd is None else f"${total.usd:.4f}"
    source = f" ({', '.join(prices)})" if prices else ""
    asked = "replayed" if replayed else "made"
    return (
        f"{total.calls} model calls {asked}, {dollars}{source}, {numbers.seconds(total.seconds)} of waiting"
    )


def _rows(calls: Iterable[CallSummary], name: Callable[[CallSummary], str]) -> tuple[CostRow, ...]:
    groups: dict[str, list[CallSummary]] = {}
    for call in calls:
        groups.setdefault(name(call), []).append(call)
    everything = [call for group in groups.values() for call in group]
    rows = [_row(title, groups[title]) for title in sorted(groups)]
    return (*rows, _row("all", everything)) if rows else ()


def _row(name: str, calls: list[CallSummary]) -> CostRow:
    spent = sum((call.spent for call in calls), Spent())
    usages = [call.usage for call in calls if call.usage is not None]
    counted = len(usages) == len(calls)
    return CostRow(
        name=name,
        calls=len(calls),
        input_tokens=sum(usage.input_tokens for usage in usages) if counted else None,
        output_tokens=sum(usage.output_tokens for usage in usages) if counted else None,
        usd=spent.usd if all(call.priced for call in calls) else None,
        seconds=spent.seconds,
        largest_prompt=max(call.prompt_chars for call in calls),
    )


def _compared(attempt: Attempt, expectation: Expectation, facts: Facts | None) -> Prediction:
    value = facts.get(expectation.fact, expectation.subject) if facts else None
    after = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    before = expectation.before
    came: bool | None = None
    if before is not None and after is not None:
        change = (after - before) / abs(before) if before else after - before
        came = {"up": change > SAME, "down": change < -SAME, "same": abs(change) <= SAME}[
            expectation.direction
        ]
    return Prediction(attempt.candidate.id, expectation, after, came)
