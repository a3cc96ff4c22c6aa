"""Faults between good candidates: `python benchmarks/faults.py TARGET TIMES FILE`.

Faults come in turn, TIMES in all; after each a good candidate is judged, which must pass. At the end nothing may be
left: no process, no shared memory, no folder. Writes a results file; exit code 1 if anything is not as it must be.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from left_behind import beyond, held

from kernelskill.config import load_config
from kernelskill.evaluation.conformance.case import task
from kernelskill.evaluation.conformance.faults import GOOD, TASK, Fault, faults
from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Status
from kernelskill.session import describe_machine


def judge_of(target: str, folder: Path, patience_s: float) -> Judge:
    """A judge that waits for nothing longer than it must."""
    if target == "cuda":
        from kernelskill.evaluation.cuda.judge import cuda_judge

        return cuda_judge(task(TASK), cache_dir=folder, patience_s=patience_s)
    return Judge(task(TASK), cache_dir=folder, patience_s=patience_s, device=EagerOnly())


def played(judge: Judge, chosen: tuple[Fault, ...], times: int) -> list[dict[str, Any]]:
    """A row for each fault: how often, what was said of it, how often the next evaluation was right, mean seconds."""
    rows: dict[str, dict[str, Any]] = {}
    for number in range(times):
        fault = chosen[number % len(chosen)]
        row = rows.setdefault(
            fault.name, {"fault": fault.name, "times": 0, "said": Counter(), "seconds": 0.0, "wrongly_said": 0,
                         "next_right": 0, "next_said": Counter()},
        )  # fmt: skip
        found, after = judge.screen(fault.candidate, None), judge.screen(GOOD, None)
        row["times"] += 1
        row["said"][found.status.value] += 1
        row["wrongly_said"] += found.status not in fault.statuses
        row["seconds"] += found.machine_s
        row["next_right"] += after.status is Status.PASSED
        row["next_said"][after.status.value] += 1
        print(f"{number + 1}: {fault.name}: {found.status}, then {after.status}", file=sys.stderr)
    for row in rows.values():
        row["seconds"] = round(row["seconds"] / row["times"], 2)
    return list(rows.values())


def main(
    target: Annotated[str, typer.Argument(help="cpu or cuda.")],
    times: Annotated[int, typer.Argument(min=1, help="Faults in all.")],
    file: Annotated[Path, typer.Argument(help="Results file.")],
    patience: Annotated[float, typer.Option(help="Seconds for a first call; what is endless lasts as long.")] = 6.0,
) -> None:  # fmt: skip
    """Play and write."""
    config, own, gpu = load_config(target=target), os.getpid(), target == "cuda"
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, closing(judge_of(target, Path(folder), patience)) as judge:
        Path(folder).chmod(0o755)
        judge.describe()
        judge.baselines()
        first = judge.screen(GOOD, None)
        before = held(own, gpu=gpu)
        rows = played(judge, faults("cuda" if gpu else "cpu"), times)
        left = beyond(before, held(own, gpu=gpu))
    right, due = sum(row["next_right"] for row in rows), sum(row["times"] for row in rows)
    document = {
        "command": f"benchmarks/faults.py {target} {times}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(config),
        "sandbox": first.sandbox,
        "first": first.status.value,
        "next_right": right,
        "next_due": due,
        "wrongly_said": sum(row["wrongly_said"] for row in rows),
        "left_behind": left,
        "seconds": round(time.monotonic() - began, 1),
        "rows": rows,
    }
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(
        f"{right} of {due} next evaluations right; left behind: {left or 'nothing'}; {document['seconds']} s"
    )
    if right < due or left or first.status is not Status.PASSED or document["wrongly_said"]:
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
