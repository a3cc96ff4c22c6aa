"""Candidates that are the reference itself: `python benchmarks/aa.py TARGET SCREENS FILE [KIND...]`.

Each of four kinds of program is screened SCREENS times in fresh processes. A screen that calls the candidate faster
than eager beyond the noise is a false win. Writes a results file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from honest import AA, same, source

from kernelskill.config import Config, build_evaluator, load_config
from kernelskill.records import Candidate
from kernelskill.session import describe_machine
from kernelskill.tasks import load_task


def screens(config: Config, name: str, count: int) -> dict[str, object]:
    """How often one program was called faster than itself, and by how much its time was seen to differ."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(source(name), encoding="utf-8")
        task = load_task(str(path), precision=config.precision)
    judge = build_evaluator(config, task)
    try:
        workload = judge.describe()
        judge.adopt(workload, None)
        judge.adopt(workload, judge.baselines())
        candidate = Candidate(id="same", parent_id="", source=same(name))
        verdicts = [judge.screen(candidate, None) for _ in range(count)]
    finally:
        judge.close()
    compared = [
        next((item for item in verdict.comparisons if item.arm == "eager"), None) for verdict in verdicts
    ]
    return {
        "name": name,
        "statuses": [verdict.status.value for verdict in verdicts],
        "false_wins": sum(item is not None and item.significant for item in compared),
        "speedups": [round(item.speedup.value, 4) for item in compared if item],
        "seconds_per_screen": round(sum(verdict.machine_s for verdict in verdicts) / count, 2),
    }


def main() -> None:
    """Measure and write."""
    target, count, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    config = load_config(target=target)
    rows: list[dict[str, object]] = []
    document = {"command": " ".join(sys.argv), "machine": describe_machine(config), "rows": rows}
    for name in sys.argv[4:] or AA:
        row = screens(config, name, count)
        rows.append(row)
        file.write_text(
            json.dumps(document, indent=1), encoding="utf-8"
        )  # an interrupted run leaves what it has
        words = (row["false_wins"], "false wins;", row["speedups"], row["seconds_per_screen"], "s")
        print(name, *words, flush=True)
    wins, tries = sum(int(str(row["false_wins"])) for row in rows), count * len(rows)
    print(f"{wins} false wins in {tries}")


if __name__ == "__main__":
    main()
