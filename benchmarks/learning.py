"""What evidence is worth: runs on one half of the small tasks fill a memory, the other half is run with and without it.

    python benchmarks/learning.py gather FOLDER --shard 1/8 --limit 480
    python benchmarks/learning.py compare FOLDER --shard 1/8 --limit 480
    python benchmarks/learning.py summary FOLDER > results/NAME.json

The halves are drawn within each family of tasks. Shards of one phase may run at the same time, each on cores of its
own (`taskset -c`); a phase that was stopped goes on when it is asked for again. With and without are runs at the same
number of judged evaluations, one after the other on the same cores; which is first alternates.

Counted are judged evaluations, tuning included, until a run first has a verified candidate that is the very program
which the run with the empty memory ended with, or has its speedup over eager, within the noise. That speedup is of the
screen that did not choose the answer; the noise is the larger A/A band of the two runs, at least `NOISE`. A run that
never gets there counts as its whole budget, but the one with the empty memory at most as far as its own answer. What
times alone would have counted, by which equal programs may differ, is told beside it.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from math import exp, log
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any, NamedTuple

import typer
from budgeted import Line, done, final, keep, left, lines, part_of, searched, settings
from paired import chance, geometric
from small_tasks import TASKS, write

from kernelskill.skills import EvidenceStore

GATHER, COMPARE, ARMS = "gather", "compare", ("empty", "filled")
EVALUATIONS = {GATHER: 9, COMPARE: 7}
"""Judged evaluations of a run."""
NOISE = 0.05
"""Two screens of one program at different times are not told apart below this; the summary tells how they differ."""
FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the experiment; made if need be.")]
ShardOption = Annotated[str, typer.Option(help="I/N: the I-th of N parts of the work.")]
LimitOption = Annotated[float, typer.Option(help="Seconds after which no further run is begun.")]
SeedOption = Annotated[int, typer.Option(help="Of the halves; the same in all phases.")]
app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


class Pair(NamedTuple):
    """A task that is run with both memories."""

    task: str
    repeat: int
    order: tuple[str, ...]
    """The arms, in the order in which they are run."""


def halves(seed: int) -> tuple[list[str], list[str]]:
    """Names of the tasks that evidence comes from, and of those that it is tried on; both have like families."""
    families = defaultdict(list)
    for name, task in TASKS.items():
        families[task.family].append(name)
    found: tuple[list[str], list[str]] = ([], [])
    for family, names in families.items():
        random.Random(f"{seed}/{family}").shuffle(names)
        odd = len(found[0]) > len(found[1])
        for place, name in enumerate(names):
            found[(place + odd) % 2].append(name)
    return found


@app.command()
def gather(
    folder: FolderArgument, shard: ShardOption = "1/1", limit: LimitOption = 86400,
    seed: SeedOption = 0,
) -> None:  # fmt: skip
    """Fill memories: one for each shard, in which a run finds what those before it have left."""
    place, part = folder / GATHER, shard.partition("/")[0]
    files, ended = _files(folder), done(lines(place))
    for name in left(part_of(halves(seed)[0], shard), ended, str, limit):
        config = settings(
            place / "runs" / name, folder / "cache" / part, place / part / "evidence.sqlite", EVALUATIONS[GATHER],
        )  # fmt: skip
        keep(
            place / f"{part}.jsonl", name, _facts(name),
            lambda file=files[name], config=config: searched(config, file, EVALUATIONS[GATHER]),
        )  # fmt: skip


@app.command()
def compare(
    folder: FolderArgument, shard: ShardOption = "1/1", limit: LimitOption = 86400,
    seed: SeedOption = 0, repeats: Annotated[int, typer.Option(min=1, help="Runs of each arm on a task.")] = 1,
) -> None:  # fmt: skip
    """Run the other half with an empty memory and with the merged one."""
    place, part = folder / COMPARE, shard.partition("/")[0]
    first, second = halves(seed)
    missing = set(first) - {line["key"] for line in lines(folder / GATHER)}
    if missing:
        sys.exit(f"{len(missing)} of {len(first)} tasks are not gathered yet: {', '.join(sorted(missing))}")
    pairs = [
        Pair(name, repeat, ARMS if (number + repeat) % 2 else ARMS[::-1])
        for repeat in range(repeats)
        for number, name in enumerate(second)
    ]
    jobs = [(pair, arm) for pair in part_of(pairs, shard) for arm in pair.order]
    files, ended = _files(folder), done(lines(place))
    for (name, repeat, _), arm in left(jobs, ended, _key, limit):
        home = place / "runs" / f"{name}-{repeat}-{arm}"
        config = settings(home, folder / "cache" / part, home / "evidence.sqlite", EVALUATIONS[COMPARE])
        rows = _fill(home / "evidence.sqlite", folder / GATHER) if arm == "filled" else 0
        facts = {**_facts(name), "repeat": repeat, "arm": arm, "rows": rows}
        keep(
            place / f"{part}.jsonl", f"{name}-{repeat}-{arm}", facts,
            lambda file=files[name], config=config: searched(config, file, EVALUATIONS[COMPARE]),
        )  # fmt: skip


@app.command()
def summary(folder: FolderArgument, seed: SeedOption = 0) -> None:
    """Print what came of it as JSON, and in a few words on standard error."""
    told = lines(folder / COMPARE)
    runs = {(line["task"], line["repeat"], line["arm"]): line for line in told}
    rows: dict[str, list[Line]] = defaultdict(list)
    left_out: dict[str, str] = {}
    for name, repeat in sorted({(line["task"], line["repeat"]) for line in told}):
        empty, filled = (runs.get((name, repeat, arm)) for arm in ARMS)
        why = next((w for run in (empty, filled) if (w := _unusable(run))), "")
        if why or empty is None or filled is None:
            left_out[f"{name}-{repeat}"] = why
        else:
            rows[name].append(counted(empty, filled, EVALUATIONS[COMPARE]))
    if not rows:
        sys.exit(f"no task has both runs yet; left out: {left_out}")
    found = {"seed": seed, "evidence_from": halves(seed)[0], **compared(rows), "left_out": left_out}
    found["machine"] = {name: told[0].get(name) for name in ("device", "threads", "torch")}
    found["repeatability"] = round(repeatability(told), 4)
    found["gathered"], found["runs"] = lines(folder / GATHER), told
    json.dump(found, sys.stdout, indent=1)
    print(_told(found), file=sys.stderr)


def counted(empty: Line, filled: Line, budget: int) -> Line:
    """What one pair of runs came to."""
    goal = empty["confirmed"][1] / (1 + max(NOISE, empty["band"], filled["band"]))
    own = [item["id"] for item in empty["evaluations"]].index(empty["final"]) + 1
    answer = edits(empty, empty["final"])
    same = (
        number
        for number, item in enumerate(filled["evaluations"], 1)
        if item["over_eager"] is not None and edits(filled, item["id"]) == answer
    )
    by_times = reached(filled, goal, budget)
    return {
        "goal": round(goal, 4),
        "empty": min(own, reached(empty, goal, budget)),
        "filled": min(by_times, next(same, budget)),
        "filled_by_times": by_times,
        "final_empty": final(empty),
        "final_filled": final(filled),
    }


def edits(line: Line, candidate: str) -> frozenset[str]:
    """All edits that made a candidate, those of its bases too: as they were proposed, they make one program."""
    known = {item["id"]: item for item in line["evaluations"]}
    found: set[str] = set()
    while candidate in known:
        found |= set(known[candidate]["edits"])
        candidate = known[candidate]["base"]
    return frozenset(found)


def reached(line: Line, goal: float, budget: int) -> int:
    """Judged evaluations until a verified candidate has the speedup; the budget if none has."""
    for number, item in enumerate(line["evaluations"], 1):
        if item["over_eager"] is not None and item["over_eager"][1] >= goal:
            return number
    return budget


def repeatability(told: list[Line]) -> float:
    """Median factor, less 1, by which an answer's two screens differ; the first of them chose it."""
    return median(
        exp(abs(log(item["over_eager"][1] / line["confirmed"][1]))) - 1
        for line in told
        for item in line.get("evaluations", ())
        if line["confirmed"] and item["id"] == line["final"]
    )


def compared(rows: dict[str, list[Line]]) -> dict[str, Any]:
    """All tasks together: repeats are averaged, then tasks are paired."""
    counts = {arm: [mean(row[arm] for row in found) for found in rows.values()] for arm in ARMS}
    finals = [
        geometric([row["final_filled"] / row["final_empty"] for row in found]).value
        for found in rows.values()
    ]
    less = [one - other for one, other in zip(counts["empty"], counts["filled"], strict=True)]
    return {
        "tasks": len(rows),
        "evaluations_empty": round(mean(counts["empty"]), 3),
        "evaluations_filled": round(mean(counts["filled"]), 3),
        "ratio": round(sum(counts["filled"]) / sum(counts["empty"]), 4),
        "ratio_by_times": round(_by_times(rows) / sum(counts["empty"]), 4),
        "fewer": sum(item > 0 for item in less),
        "more": sum(item < 0 for item in less),
        "p": chance(less),
        "final_filled_over_empty": geometric(finals).model_dump(),
        "rows": rows,
    }


def _by_times(rows: dict[str, list[Line]]) -> float:
    return sum(mean(row["filled_by_times"] for row in found) for found in rows.values())


def _told(found: dict[str, Any]) -> str:
    low, value, high = (found["final_filled_over_empty"][name] for name in ("low", "value", "high"))
    return (
        f"{found['tasks']} tasks: {found['evaluations_filled']} evaluations with evidence, "
        f"{found['evaluations_empty']} without: {found['ratio']}x (asked for: at most 0.8x; by times alone "
        f"{found['ratio_by_times']}x); fewer on {found['fewer']}, more on {found['more']}, p = {found['p']:.4g} "
        f"(one-sided, sign flips)\n"
        f"final speedup with evidence over without: {value:.3f} [{low:.3f}, {high:.3f}] (geometric mean)\n"
        f"an answer's two screens differ by {found['repeatability']:.1%} (median)\n"
        f"left out: {found['left_out'] or 'none'}"
    )


def _unusable(line: Line | None) -> str:
    if line is None:
        return "not run yet"
    if "error" in line:
        return str(line["error"])
    return "" if line["confirmed"] else f"{line['stop']}: nothing verified to compare"


def _key(job: tuple[Pair, str]) -> str:
    pair, arm = job
    return f"{pair.task}-{pair.repeat}-{arm}"


def _facts(name: str) -> Line:
    return {"task": name, "family": TASKS[name].family}


def _files(folder: Path) -> dict[str, Path]:
    """Name -> file of each task."""
    return dict(zip(TASKS, write(folder / "tasks"), strict=True))


def _fill(store: Path, gathered: Path) -> int:
    """Merge what was gathered into a run's own store; returns how many rows that is."""
    opened, files = EvidenceStore(store), sorted(gathered.glob("*/evidence.sqlite"))
    for file in files:
        opened.merge(file)
    return sum(len(EvidenceStore(file).rows()) for file in files)


if __name__ == "__main__":
    app()
