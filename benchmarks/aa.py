"""Candidates that are the reference itself: `python benchmarks/aa.py TARGET SCREENS FILE [KIND...]`.

Each of four kinds of program is screened SCREENS times in fresh processes. A screen is a first look, in one process of
each arm; what it calls faster than eager is promoted, as a run would do, and a promotion that agrees is a false win.
Writes a results file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from honest import AA, same, source

from kernelskill.config import Config, build_evaluator, load_config
from kernelskill.records import Candidate, Evaluation
from kernelskill.session import describe_machine
from kernelskill.tasks import load_task


def screens(config: Config, name: str, count: int) -> dict[str, object]:
    """How often one program was called faster than itself, and by how much its time was seen to differ."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(source(name), encoding="utf-8")
        task = load_task(str(path), precision=config.precision)
    judge = build_evaluator(config, task)
    candidate = Candidate(id="same", parent_id="", source=same(name))
    try:
        workload = judge.describe()
        judge.adopt(workload, None)
        judge.adopt(workload, judge.baselines())
        verdicts = [judge.screen(candidate, None) for _ in range(count)]
        looked = sum(_over_eager(verdict, significant=True) is not None for verdict in verdicts)
        promoted = [judge.promote(candidate) for _ in range(looked)]
    finally:
        judge.close()
    compared = [_over_eager(verdict) for verdict in verdicts]
    return {
        "name": name,
        "statuses": [verdict.status.value for verdict in verdicts],
        "false_wins": sum(_over_eager(verdict, significant=True) is not None for verdict in promoted),
        "promoted": looked,
        "speedups": [round(value, 4) for value in compared if value],
        "promoted_speedups": [round(value, 4) for item in promoted if (value := _over_eager(item))],
        "seconds_per_screen": round(sum(verdict.machine_s for verdict in verdicts) / count, 2),
    }


def _over_eager(verdict: Evaluation, *, significant: bool = False) -> float | None:
    """The speedup over eager that a verdict gives, if asked for only one that counts."""
    found = next((item for item in verdict.comparisons if item.arm == "eager"), None)
    return None if found is None or (significant and not found.significant) else found.speedup.value


def main() -> None:
    """Measure and write."""
    target, count, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    config = load_config(target=target)
    rows: list[dict[str, object]] = []
    document = {
        "command": f"benchmarks/aa.py {target} {count}",
        "machine": describe_machine(config),
        "rows": rows,
    }
    for name in sys.argv[4:] or AA:
        row = screens(config, name, count)
        rows.append(row)
        file.write_text(
            json.dumps(document, indent=1), encoding="utf-8"
        )  # an interrupted run leaves what it has
        words = (
            row["false_wins"],
            "false wins;",
            row["promoted"],
            "promoted;",
            row["speedups"],
            row["seconds_per_screen"],
            "s",
        )
        print(name, *words, flush=True)
    wins, tries = sum(int(str(row["false_wins"])) for row in rows), count * len(rows)
    print(f"{wins} false wins in {tries}")


if __name__ == "__main__":
    main()
