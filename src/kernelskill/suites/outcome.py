"""From what a run or a judgement recorded to the line of a task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kernelskill.records import (
    Answer,
    Attempt,
    Baselines,
    Candidate,
    Evaluation,
    Interval,
    Labels,
    Run,
    Status,
    StockTime,
    StockTimes,
    StopReason,
    TaskOutcome,
    Workload,
)
from kernelskill.records.suite import closest, over_stock

STOCK_SKILLS = frozenset({"library-compile", "cuda-graphs"})
"""Skills that put the reference under a stock recipe and change nothing else."""
LINE_LENGTH = 300
MEMORY_WORDS = (
    "not enough memory",
    "out-of-memory",
    "out of memory",
    "too big:",
    "no room for",
    "needs more memory",
    "too-big",
)


def run_outcome(run: Run, promoted: dict[str, Evaluation]) -> tuple[TaskOutcome, str, tuple[Answer, ...]]:
    """How a run ended, why, and its best candidate.

    Args:
        run: to its end.
        promoted: candidate -> its verdict in fresh processes, also of those that did not hold.
    """
    result = run.result
    assert result is not None, "carry_on ends with a result"
    told = f"{result.stop.value}: {result.stop_detail}"
    if result.stop is StopReason.UNTESTABLE:
        return TaskOutcome.UNTESTABLE, result.stop_detail, ()
    bar = run.baselines.best_arm if run.baselines else "eager"
    answers = [
        answer_of(attempt.candidate, evaluation, bar)
        for attempt in run.attempts
        if (evaluation := promoted.get(attempt.candidate.id) or attempt.evaluation) is not None
    ]
    won = [item for item in answers if item.id == result.winner_id and not item.is_baseline]
    if won:
        return TaskOutcome.FASTER, told, (won[0].model_copy(update={"outcome": TaskOutcome.FASTER}),)
    sound = [item for item in answers if item.status == Status.PASSED.value and not item.is_baseline]
    if sound:
        best = max(sound, key=lambda item: (item.stage == "promotion", over_stock(item)))
        best = best.model_copy(update={"outcome": TaskOutcome.VERIFIED})
        return TaskOutcome.VERIFIED, f"{told}; {_not_faster(best)}", (best,)
    if result.winner_id:
        return TaskOutcome.STOCK, f"{told}; the winner is a stock recipe under another name", ()
    return TaskOutcome.STOCK, f"{told}{_why_none(run.attempts)}", ()


def answer_of(candidate: Candidate, evaluation: Evaluation, bar: str, sample: int = 0) -> Answer:
    """What is known of one candidate from one verdict.

    Args:
        candidate: that was judged.
        evaluation: its verdict.
        bar: fastest stock arm.
        sample: number among the candidates of its task.
    """
    passed = evaluation.status is Status.PASSED
    stock = [item for item in evaluation.comparisons if item.arm not in ("eager", "base") or item.arm == bar]
    faster = passed and bool(stock) and all(item.significant for item in stock)
    over = {item.arm: item.speedup for item in evaluation.comparisons if item.arm != "base"}
    baseline = passed and is_baseline(evaluation.labels, candidate.skills)
    answer = Answer(
        id=candidate.id,
        sample=sample,
        source_hash=evaluation.source_hash,
        outcome=_outcome(passed, faster and not baseline),
        status=evaluation.status.value,
        stage=evaluation.stage,
        tier=evaluation.tier,
        labels=evaluation.labels,
        skills=tuple(dict.fromkeys(candidate.skills)),
        over=over,
        significant=tuple(
            item.arm for item in evaluation.comparisons if item.significant and item.arm in over
        ),
        time_ms=next((item.median_ms for item in evaluation.timings if item.arm == "candidate"), None),
        noise_band_ratio=evaluation.noise_band_ratio,
        is_baseline=baseline,
    )
    return answer.model_copy(update={"reason": _reason(answer, evaluation)})


def is_baseline(labels: Labels, skills: Sequence[str] = ()) -> bool:
    """Whether a candidate is a stock recipe: by its skills where they are known, else by what ran."""
    if skills:
        return set(skills) <= STOCK_SKILLS
    kinds = set(labels.kinds)
    return bool(kinds & {"compile", "graph"}) and not kinds & {"custom", "algebraic"}


def stock_times(baselines: Baselines) -> StockTimes:
    """The stock arms without their raw times."""
    return StockTimes(
        arms={
            item.arm: StockTime(median_ms=item.median_ms, p10_ms=item.p10_ms, p90_ms=item.p90_ms)
            for item in baselines.timings
        },
        best_arm=baselines.best_arm,
        unavailable=baselines.unavailable,
        noise_band_ratio=baselines.noise_band_ratio,
    )


def sizes(workload: Workload) -> tuple[int, int]:
    """Bytes of a call's inputs and outputs, and of the state."""
    moved = sum(spec.nbytes for spec in (*workload.inputs, *workload.outputs))
    return moved, sum(item.spec.nbytes for item in workload.state if not item.tied_to)


def short_of_memory(text: str, evaluations: Sequence[Evaluation] = ()) -> bool:
    """Whether memory ran short, which says nothing about a task that shared its device."""
    return any(word in text for word in MEMORY_WORDS) or any(
        item.status is Status.OUT_OF_MEMORY for item in evaluations
    )


def ratio_text(speedup: Interval) -> str:
    """A speedup with its interval."""
    return f"{speedup.value:.2f}x [{speedup.low:.2f}, {speedup.high:.2f}]"


def _outcome(passed: bool, faster: bool) -> TaskOutcome:
    if not passed:
        return TaskOutcome.REJECTED
    return TaskOutcome.FASTER if faster else TaskOutcome.VERIFIED


def _reason(answer: Answer, evaluation: Evaluation) -> str:
    if answer.outcome is TaskOutcome.REJECTED:
        return f"{answer.status}: {telling_line(evaluation.detail) or evaluation.hint or 'no detail'}"
    if answer.is_baseline:
        return f"a stock recipe under another name ({', '.join(answer.labels.kinds) or 'by its skills'})"
    return "" if answer.outcome is TaskOutcome.FASTER else _not_faster(answer)


def telling_line(detail: str) -> str:
    """The line of a failure's detail that says most: the error itself, else the last that has words."""
    lines = [line.strip() for line in detail.splitlines() if re.search(r"[^\W\d_]", line)]
    errors = [line for line in lines if re.match(r"(Fatal Python error|[\w.]*(Error|Exception))\b", line)]
    return (errors or lines or [""])[-1][:LINE_LENGTH]


def _not_faster(answer: Answer) -> str:
    against = closest(answer)
    if against is None:
        return f"{answer.id} is verified, but was not timed"
    how = "in fresh processes" if answer.stage == "promotion" else "in its screen"
    band = "" if answer.noise_band_ratio is None else f" (band {100 * answer.noise_band_ratio:.1f} %)"
    told = f"{answer.id} is verified, {ratio_text(against)} over best stock {how}"
    return f"{told}: not faster beyond the noise{band}"


def _why_none(attempts: Sequence[Attempt]) -> str:
    statuses = Counter(item.evaluation.status.value for item in attempts if item.evaluation)
    if not statuses:
        return ""
    told = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return f"; no candidate of its own verified ({told})"
