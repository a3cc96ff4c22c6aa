"""Stock arms of whole suites -> one table: `python benchmarks/suite_baselines.py results/NAME.tsv RUN_FOLDER...`.

Every kind of suite run times the stock arms of its tasks; a run with `--precision match` and one with `--preset paper`
hold both flag settings. Columns: task, precision, arm, median, and the times that a tenth of the calls were below and
above, milliseconds; whether the arm is the best; the A/A band; which run. `--beside` takes a table with columns level,
task and eager_ms, compile_ms, eager_graph_ms, compile_graph_ms (and the same with _tf32), and prints what differs by
more than 15 %.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from kernelskill.records import Precision
from kernelskill.suites.folder import SuiteFolder

COLUMNS = ("task", "precision", "arm", "median_ms", "p10_ms", "p90_ms", "best", "noise_band_ratio", "run")
THEIRS = {
    ("match", "eager"): "eager_ms",
    ("match", "compile"): "compile_ms",
    ("match", "graph"): "eager_graph_ms",
    ("match", "compile+graph"): "compile_graph_ms",
    ("tf32", "eager"): "eager_tf32_ms",
    ("tf32", "compile"): "compile_tf32_ms",
    ("tf32", "compile+graph"): "compile_tf32_graph_ms",
}
"""Precision and arm -> column of the other table."""
APART = 0.15

Row = tuple[str | float, ...]


def rows_of(folder: SuiteFolder) -> Iterator[Row]:
    """A row for each arm of each task, in the suite's order."""
    order = {task.key: place for place, task in enumerate(folder.manifest.suite.tasks)}
    for item in sorted(folder.results(), key=lambda result: order[result.key]):
        for precision, times in item.stock.items():
            for arm, time in times.arms.items():
                numbers = [float(f"{value:.6g}") for value in (time.median_ms, time.p10_ms, time.p90_ms)]
                best = "best" if arm == times.best_arm else ""
                band = float(f"{times.noise_band_ratio:.4g}")
                yield (item.key, precision, arm, *numbers, best, band, folder.manifest.id)


def differences(rows: list[Row], beside: Path) -> Iterator[str]:
    """Where our time and theirs are further apart than that, largest first."""
    with beside.open(encoding="utf-8", newline="") as file:
        theirs = {f"level{row['level']}/{row['task']}": row for row in csv.DictReader(file, delimiter="\t")}
    found = []
    for task, precision, arm, median_ms, *_ in rows:
        column = THEIRS.get((str(precision), str(arm)), "")
        told = theirs.get(str(task), {}).get(column)
        if told:
            ratio = float(median_ms) / float(told)
            found.append(
                (ratio, f"{task} {precision} {arm}: {median_ms} ms, theirs {told} ms ({ratio:.2f}x)")
            )
    yield f"{len(found)} times beside theirs"
    for ratio, text in sorted(found, key=lambda item: -max(item[0], 1 / item[0])):
        if max(ratio, 1 / ratio) > 1 + APART:
            yield text


def main() -> None:
    """Write the table; print the differences."""
    parser = argparse.ArgumentParser(description="Keep the stock arms' times of suite runs.")
    parser.add_argument("target", type=Path, help="table to write")
    parser.add_argument(
        "runs", type=Path, nargs="+", help="folders of suite runs; the first that has a time counts"
    )
    parser.add_argument("--beside", type=Path, help="table of others to compare with")
    given = parser.parse_args()
    known: dict[tuple[str, str, str], Row] = {}
    for path in given.runs:
        for row in rows_of(SuiteFolder(path)):
            known.setdefault((str(row[0]), str(row[1]), str(row[2])), row)
    order = [item.value for item in Precision]
    rows = sorted(known.values(), key=lambda row: order.index(str(row[1])))
    with given.target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    print(f"{given.target}: {len(rows)} times of {len({row[0] for row in rows})} tasks")
    for text in differences(rows, given.beside) if given.beside else ():
        print(text)


if __name__ == "__main__":
    main()
