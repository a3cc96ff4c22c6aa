"""How often the judge's interval holds the truth: `python benchmarks/intervals.py TARGET FILE [--tries N]`.

A candidate does the reference's work with fewer repetitions, which plants a speedup of about 1.05, 1.3 or 2. The truth
is what two long promotions give, one before and one after the tries, with 200 rounds or more together; each try is a
promotion as any winner gets it. On the CPU the three speedups are measured side by side where there are six cores,
each on cores of its own; `taskset -c` says which are taken. Writes a results file.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelskill.config import load_config
from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Candidate, Comparison, Reference, Status, Task
from kernelskill.session import describe_machine

REPEATS = 60
PLANTED = {"1.05x": 57, "1.3x": 46, "2x": 30}
"""Name -> repetitions of the candidate."""
SHAPE = {"cpu": "64, 512", "cuda": "2048, 4096"}
"""Of the input: about a millisecond for all repetitions."""
TRUTH_SETS = {"cpu": 12, "cuda": 10}
"""Process sets of each of the two promotions that give the truth."""
LEAST_CORES = 2
"""Cores for one judge and what it times."""
PROGRAM = """
import torch
class {name}(torch.nn.Module):
    def forward(self, x):
        for _ in range({repeats}):
            y = torch.tanh(x)
        return y
def get_inputs():
    return [torch.randn({shape})]
"""


def task(target: str) -> Task:
    """The reference."""
    source = PROGRAM.format(name="Model", repeats=REPEATS, shape=SHAPE[target])
    reference = Reference(
        loader="source", kind="module", entry="Model", source=source, inputs_entry="get_inputs"
    )
    return Task(name="repeated", hash="repeated", reference=reference, origin="benchmarks/intervals.py")


def judge_of(target: str, folder: Path) -> Judge:
    """A judge that times eager alone: no other arm would get slower with the repetitions."""
    if target == "cuda":
        from kernelskill.evaluation.cuda.judge import cuda_judge

        judge = cuda_judge(task(target), cache_dir=folder)
        judge.device.arms = ("eager",)
        return judge
    return Judge(task(target), cache_dir=folder, device=EagerOnly())


def measured(judge: Judge, target: str, planted: str) -> Comparison:
    """What one promotion says of the candidate and eager."""
    source = PROGRAM.format(name="ModelNew", repeats=PLANTED[planted], shape=SHAPE[target])
    evaluation = judge.promote(Candidate(id=planted, source=source))
    found = next((item for item in evaluation.comparisons if item.arm == "eager"), None)
    if evaluation.status is not Status.PASSED or found is None:
        raise RuntimeError(f"{planted} is {evaluation.status}: {evaluation.detail}")
    return found


def coverage(target: str, planted: str, tries: int, truth_sets: int | None = None) -> dict[str, Any]:
    """Truth, and how many of so many intervals hold it.

    Args:
        target: "cpu" or "cuda".
        planted: a name in `PLANTED`.
        tries: promotions.
        truth_sets: process sets of each half of the truth; default: `TRUTH_SETS`.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with closing(judge_of(target, Path(folder))) as judge:
            judge.describe()
            judge.baselines()
            usual, long = judge.promotion_sets, truth_sets or TRUTH_SETS[target]
            judge.promotion_sets = long
            halves = [measured(judge, target, planted)]
            judge.promotion_sets = usual
            found = [measured(judge, target, planted).speedup for _ in range(tries)]
            judge.promotion_sets = long
            halves.append(measured(judge, target, planted))
    truth = math.sqrt(halves[0].speedup.value * halves[1].speedup.value)
    return {
        "planted": planted,
        "truth_ratio": truth,
        "truth_halves": [item.speedup.value for item in halves],
        "truth_rounds": sum(item.rounds for item in halves),
        "tries": tries,
        "held": sum(item.low <= truth <= item.high for item in found),
        "sets": usual,
        "intervals": [[item.low, item.value, item.high] for item in found],
        "seconds": round(time.monotonic() - began, 1),
    }


def core_sets(target: str) -> list[set[int]]:
    """Cores for each planted speedup; empty where they are measured one after the other."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // len(PLANTED)
    if target == "cuda" or share < LEAST_CORES:
        return []
    return [set(cores[number * share : (number + 1) * share]) for number in range(len(PLANTED))]


def all_coverages(target: str, tries: int) -> list[dict[str, Any]]:
    """A row for each planted speedup."""
    cores = core_sets(target)
    if not cores:
        return [coverage(target, planted, tries) for planted in PLANTED]
    pools = [
        ProcessPoolExecutor(1, get_context("spawn"), initializer=os.sched_setaffinity, initargs=(0, chosen))
        for chosen in cores
    ]
    try:
        asked = [
            pool.submit(coverage, target, planted, tries)
            for pool, planted in zip(pools, PLANTED, strict=True)
        ]
        return [item.result() for item in asked]
    finally:
        for pool in pools:
            pool.shutdown()


def main(
    target: Annotated[str, typer.Argument(help="cpu or cuda.")],
    file: Annotated[Path, typer.Argument(help="Results file.")],
    tries: Annotated[int, typer.Option(min=1, help="Promotions of each speedup.")] = 30,
) -> None:
    """Measure and write."""
    rows = all_coverages(target, tries)
    held, total = sum(row["held"] for row in rows), tries * len(rows)
    document = {
        "command": f"benchmarks/intervals.py {target} --tries {tries}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(load_config(target=target)),
        "cores_each": [sorted(cores) for cores in core_sets(target)],
        "held": held,
        "tries": total,
        "rows": rows,
    }
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    for row in rows:
        print(
            f"{row['planted']}: truth {row['truth_ratio']:.3f}; {row['held']} of {row['tries']} intervals hold it"
        )
    print(f"{held} of {total}")


if __name__ == "__main__":
    typer.run(main)
