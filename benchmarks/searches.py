"""Searches, and the parts of the memory, at the same number of judged evaluations on the first small tasks.

    python benchmarks/searches.py run FOLDER --shard 1/8 --limit 480
    python benchmarks/searches.py summary FOLDER > results/NAME.json

The variants are those of `kernelskill ablate`; here a run is judged by screens alone, and can be one of many on a
machine with many cores (`taskset -c`). None reads evidence. What was stopped goes on when it is asked for again.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from budgeted import Line, done, final, keep, left, lines, part_of, searched, settings
from paired import chance, geometric
from small_tasks import TASKS, write

from kernelskill.cli.ablate import variants_of

EVALUATIONS = 9
"""Judged evaluations of a run."""
WHOLE, SEARCHES, PARTS = "whole", "beam,evolutionary,bandit", "long-term,short-term,gate"
FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the experiment; made if need be.")]
app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


@app.command()
def run(
    folder: FolderArgument,
    shard: Annotated[str, typer.Option(help="I/N: the I-th of N parts of the work.")] = "1/1",
    limit: Annotated[float, typer.Option(help="Seconds after which no further run is begun.")] = 86400,
    tasks: Annotated[int, typer.Option(help="How many of the small tasks, from the first.")] = 12,
    search: Annotated[str, typer.Option(help="Searches that are set against greedy.")] = SEARCHES,
    without: Annotated[str, typer.Option(help="Parts of the memory to go without.")] = PARTS,
) -> None:
    """Run every variant on every task."""
    place, part = folder / "searches", shard.partition("/")[0]
    words = list(variants_of(settings(place, place, None, EVALUATIONS), without, search))
    jobs = [
        (name, words[(number + step) % len(words)])
        for number, name in enumerate(list(TASKS)[:tasks])
        for step in range(len(words))
    ]
    files = dict(zip(TASKS, write(folder / "tasks"), strict=True))
    ended = done(lines(place))
    for name, word in left(part_of(jobs, shard), ended, "-".join, limit):
        config = settings(place / "runs" / f"{name}-{word}", folder / "cache" / part, None, EVALUATIONS)
        variant = variants_of(config, without, search)[word]
        keep(
            place / f"{part}.jsonl",
            f"{name}-{word}",
            {"task": name, "family": TASKS[name].family, "variant": word},
            lambda variant=variant, file=files[name]: searched(variant, file, EVALUATIONS),
        )


@app.command()
def summary(folder: FolderArgument) -> None:
    """Print what came of it as JSON, and in a few words on standard error."""
    told = lines(folder / "searches")
    runs = {(line["variant"], line["task"]): line for line in told if "error" not in line}
    variants = list(dict.fromkeys(line["variant"] for line in told if line["variant"] != WHOLE))
    found = {
        "machine": {name: told[0].get(name) for name in ("device", "threads", "torch")} if told else {},
        "evaluations": EVALUATIONS,
        "against_greedy": {word: _against(runs, word) for word in variants},
        "errors": {
            line["key"]: line["error"] for line in told if "error" in line and line["key"] not in done(told)
        },
        "runs": told,
    }
    json.dump(found, sys.stdout, indent=1)
    for word, item in found["against_greedy"].items():
        print(word, _told(item), file=sys.stderr)


def _against(runs: dict[tuple[str, str], Line], word: str) -> dict[str, Any]:
    """A variant's final speedups over those of greedy with everything, over the tasks that both have an answer to."""
    ratios = {
        name: mine / theirs
        for variant, name in runs
        if variant == word
        and (mine := final(runs[word, name]))
        and (theirs := final(runs.get((WHOLE, name), {})))
    }
    lost = [
        name
        for variant, name in runs
        if variant == word and not final(runs[word, name]) and final(runs.get((WHOLE, name), {}))
    ]
    return {
        "tasks": len(ratios),
        "ratio": geometric(list(ratios.values())).model_dump() if ratios else None,
        "p_better": chance([math.log(ratio) for ratio in ratios.values()]),
        "repeated": sum(_repeated(runs[word, name]) for name in ratios),
        "repeated_greedy": sum(_repeated(runs[WHOLE, name]) for name in ratios),
        "answer_lost": lost,
        "by_task": {name: round(ratio, 4) for name, ratio in ratios.items()},
    }


def _repeated(line: Line) -> int:
    """Judged evaluations of an edit on a base where it was judged before."""
    tried = [(item["base"], *item["edits"]) for item in line["evaluations"]]
    return len(tried) - len(set(tried))


def _told(item: dict[str, Any]) -> str:
    if not item["ratio"]:
        return "has no task in common with greedy yet"
    low, value, high = (item["ratio"][name] for name in ("low", "value", "high"))
    return (
        f"{value:.3f} [{low:.3f}, {high:.3f}] x greedy's final speedup over {item['tasks']} tasks, p(better) = "
        f"{item['p_better']:.3g}; {item['repeated']} repeated evaluations (greedy {item['repeated_greedy']}); "
        f"no answer on {item['answer_lost'] or 'none'}"
    )


if __name__ == "__main__":
    app()
