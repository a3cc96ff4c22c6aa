"""How often the judge's interval holds the truth: `python benchmarks/intervals.py > results/NAME.json`.

A candidate does the reference's work with fewer repetitions, which plants a speedup of about 1.05, 1.3 or 2. The truth
is what sixteen process sets give; each try is a promotion as any winner gets it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Candidate, Interval, Reference, Status, Task

REPEATS = 60
PLANTED = {"1.05x": 57, "1.3x": 46, "2x": 30}
"""Name -> repetitions of the candidate."""
TRUTH_SETS = 16
PROGRAM = """
import torch
class {name}(torch.nn.Module):
    def forward(self, x):
        for _ in range({repeats}):
            y = torch.tanh(x)
        return y
def get_inputs():
    return [torch.randn(64, 512)]
"""


def task() -> Task:
    """The reference."""
    source = PROGRAM.format(name="Model", repeats=REPEATS)
    reference = Reference(
        loader="source", kind="module", entry="Model", source=source, inputs_entry="get_inputs"
    )
    return Task(name="repeated", hash="repeated", reference=reference, origin="benchmarks/intervals.py")


def candidate(planted: str) -> Candidate:
    """The reference with fewer repetitions."""
    source = PROGRAM.format(name="ModelNew", repeats=PLANTED[planted])
    return Candidate(id=planted, source=source)


def measured(judge: Judge, planted: str) -> Interval:
    """The interval over eager that one promotion gives."""
    evaluation = judge.promote(candidate(planted))
    found = evaluation.speedup("eager")
    if evaluation.status is not Status.PASSED or found is None:
        raise RuntimeError(f"{planted} is {evaluation.status}: {evaluation.detail}")
    return found


def coverage(
    planted: str, tries: int, truth_sets: int = TRUTH_SETS, sets: int | None = None
) -> dict[str, Any]:
    """Truth, and how many of so many intervals hold it.

    Args:
        planted: a name in `PLANTED`.
        tries: promotions.
        truth_sets: process sets that the truth is taken from.
        sets: process sets of each promotion; default: the judge's own.
    """
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(task(), cache_dir=Path(folder), device=EagerOnly())
        with closing(judge):
            judge.describe()
            judge.baselines()
            usual, judge.promotion_sets = sets or judge.promotion_sets, truth_sets
            truth = measured(judge, planted).value
            judge.promotion_sets = usual
            found = [measured(judge, planted) for _ in range(tries)]
    held = sum(item.low <= truth <= item.high for item in found)
    return {
        "planted": planted,
        "truth_ratio": truth,
        "tries": tries,
        "held": held,
        "intervals": [[item.low, item.value, item.high] for item in found],
    }


def main(tries: Annotated[int, typer.Option(min=1, help="Promotions of each speedup.")] = 30) -> None:
    """Print one JSON document."""
    rows = []
    for planted in PLANTED:
        rows.append(coverage(planted, tries))
        print(f"{planted}: {rows[-1]['held']} of {tries}", file=sys.stderr)
    print(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    typer.run(main)
