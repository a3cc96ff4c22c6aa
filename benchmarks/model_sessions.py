"""Sessions of a model after the expert, added to a results file.

    python benchmarks/model_sessions.py results/model-sessions.json RUN_FOLDER...

What the expert reached and what the model made of it are told by the judge's screens, paired in one process set; what
the answer is worth against stock, by fresh process sets. Each row names its machine.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from record import row

from kernelskill.journal import load_run
from kernelskill.records import Attempt, Comparison, Outcome, Run, Status
from kernelskill.report import cost


def session(run: Run) -> dict[str, Any]:
    """One run: the expert's best, every version of the model, its calls, and whether its predictions came true."""
    model = [item for item in run.attempts if item.plan.intent is not None]
    predictions = Counter(
        {True: "true", False: "false", None: "not measured"}[item.came_true] for item in cost.predictions(run)
    )
    return {
        **row(run),
        "agents": run.config["agents"],
        "without": run.config["without"],
        "replayed": bool(run.model_calls) and all(call.replayed for call in run.model_calls),
        "expert_versions": len(run.attempts) - len(model),
        "expert_over_best_stock": _best(run, expert=True),
        "model_versions": [_version(item) for item in model],
        "model_over_expert": _over_expert(run),
        "model_slowed": _slowed(run),
        "calls": dict(Counter(call.role for call in run.model_calls)),
        "waiting_s": round(sum(call.spent.seconds for call in run.model_calls), 1),
        "largest_prompt_chars": max((call.prompt_chars for call in run.model_calls), default=0),
        "predictions": dict(predictions),
    }


def _version(attempt: Attempt) -> dict[str, Any]:
    evaluation = attempt.evaluation
    over = next((item for item in evaluation.comparisons if item.arm == "base"), None) if evaluation else None
    return {
        "id": attempt.candidate.id,
        "base": attempt.plan.base_id,
        "skill": attempt.plan.skill,
        "outcome": attempt.outcome,
        "status": evaluation.status if evaluation else None,
        "expected_speedup": attempt.plan.expected_speedup,
        "over_base": _interval(over),
    }


def _best(run: Run, expert: bool) -> list[float | bool] | None:
    """The best version of one of the two against best stock, by its screen."""
    arm = run.baselines.best_arm if run.baselines else ""
    found = [
        item
        for attempt in run.attempts
        if (attempt.plan.intent is None) is expert
        and attempt.evaluation is not None
        and attempt.evaluation.status is Status.PASSED
        for item in attempt.evaluation.comparisons
        if item.arm == arm
    ]
    return _interval(max(found, key=lambda item: item.speedup.value, default=None))


def _over_expert(run: Run) -> list[float]:
    """From the expert's last base to the model's last one, [low, value, high]; ones where the model added nothing.

    Ends and medians of the steps are multiplied, so that the interval of several steps is wider than 95 %.
    """
    gain = [1.0, 1.0, 1.0]
    for attempt in run.attempts:
        if attempt.plan.intent is None or attempt.outcome is not Outcome.NEW_BASE or not attempt.evaluation:
            continue
        step = attempt.evaluation.speedup("base")
        if step:
            gain = [
                so_far * more for so_far, more in zip(gain, (step.low, step.value, step.high), strict=True)
            ]
    return gain


def _slowed(run: Run) -> bool:
    """Whether a version of the model's became the base although it was not measured faster than the expert's."""
    return any(
        attempt.plan.intent is not None
        and attempt.outcome is Outcome.NEW_BASE
        and not any(item.arm == "base" and item.significant for item in attempt.evaluation.comparisons)
        for attempt in run.attempts
        if attempt.evaluation
    )


def _interval(item: Comparison | None) -> list[float | bool] | None:
    if item is None:
        return None
    return [item.speedup.low, item.speedup.value, item.speedup.high, item.significant]


def _machine(run: Run, known: dict[str, Any]) -> str:
    """The name under which the file has this run's machine, put there where it is new.

    The same device with other threads is another machine: its host's work takes another time.
    """
    device = str(run.machine["device"])
    name = device
    if known.get(name, run.machine)["threads"] != run.machine["threads"]:
        name = f"{device}, {run.machine['threads']} threads"
    known.setdefault(name, run.machine)
    return name


def main() -> None:
    """Add the sessions of the runs that are named; those that the file has already stay as they are."""
    file, *folders = (Path(argument) for argument in sys.argv[1:])
    runs = [load_run(folder) for folder in folders]
    document: dict[str, Any] = (
        json.loads(file.read_text(encoding="utf-8"))
        if file.exists()
        else {"machines": {}, "precision": runs[0].task.precision, "rows": []}
    )
    known = {(row["task"], row["created"]) for row in document["rows"]}
    for run in runs:
        if (run.task.name, str(run.created)) in known:
            continue
        document["rows"].append(
            {
                **session(run),
                "machine": _machine(run, document["machines"]),
                "settings": {
                    "rounds": run.budget.rounds,
                    "seeds": run.budget.seeds,
                    "repairs": run.budget.repairs,
                    "promotion_sets": run.config.get("promotion_sets"),
                },
            }
        )
    file.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
