"""Run folders -> one results file: `python benchmarks/record.py RUN_FOLDER... > results/NAME.json`.

Every number is taken from the judge's records of those runs; what they ran on and with stands beside them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernelskill.journal import load_run
from kernelskill.records import Evaluation, Run


def compared(evaluation: Evaluation) -> dict[str, Any]:
    """Times, and what they say over each arm."""
    return {
        "times_ms": {item.arm: item.median_ms for item in evaluation.timings},
        "speedup": {
            item.arm: [item.speedup.low, item.speedup.value, item.speedup.high, item.significant]
            for item in evaluation.comparisons
        },
    }


def row(run: Run) -> dict[str, Any]:
    """What one run came to, milliseconds and ratios; an interval is [low, value, high, significant]."""
    found: dict[str, Any] = {"task": run.task.name, "hash": run.task.hash, "created": run.created}
    if run.floor and run.baselines:
        found["floor_ms"] = run.floor.floor_ms
        found["baselines_ms"] = {item.arm: item.median_ms for item in run.baselines.timings}
        found["set_aside"] = run.baselines.unavailable
        found["noise_band_ratio"] = run.baselines.noise_band_ratio
    if run.result:
        found |= {"stop": run.result.stop, "stop_detail": run.result.stop_detail}
        found["answer"] = run.result.winner_id or run.result.winner_arm
        promotion = run.result.promotion
        found["unproven"] = [
            {"candidate": item.candidate_id, "status": item.status, **compared(item)}
            for item in run.result.unproven
        ]
        if promotion:
            found |= compared(promotion)
            found["process_sets"] = max(item.sets for item in promotion.comparisons)
            found |= {
                "tier": promotion.tier,
                "labels": promotion.labels.kinds,
                "flags": promotion.labels.flags,
            }
            found["sandbox"] = promotion.sandbox
    found["seconds"] = {step: round(seconds, 1) for step, seconds in run.machine_s.items() if seconds >= 1}
    return found


def main() -> None:
    """Print the results of the runs that are named."""
    runs = [load_run(Path(folder)) for folder in sys.argv[1:]]
    settings = [
        {
            "rounds": run.budget.rounds,
            "seconds": run.budget.seconds,
            "promotion_sets": run.config.get("promotion_sets"),
        }
        for run in runs
    ]
    document = {
        "machine": runs[0].machine,
        "precision": runs[0].task.precision,
        "rows": [{**row(run), "settings": chosen} for run, chosen in zip(runs, settings, strict=True)],
    }
    json.dump(document, sys.stdout, indent=1, default=str)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
