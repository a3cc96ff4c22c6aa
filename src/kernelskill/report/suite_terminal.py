"""Suites in the terminal; clean text where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelskill.records import (
    GroupScore,
    Suite,
    SuiteComparison,
    SuiteManifest,
    SuiteScore,
    TaskOutcome,
    TaskResult,
)
from kernelskill.report import numbers
from kernelskill.report.suite_story import duration, headline
from kernelskill.report.suite_table import arms_of, rows_of

COLOURS = {
    TaskOutcome.FASTER: "bold green",
    TaskOutcome.VERIFIED: "green",
    TaskOutcome.STOCK: "yellow",
    TaskOutcome.DESCRIBED: "cyan",
    TaskOutcome.REJECTED: "red",
    TaskOutcome.UNTESTABLE: "magenta",
    TaskOutcome.FAILED: "bold red",
}


def print_suites(suites: Sequence[Suite], runs: Sequence[tuple[SuiteManifest, int]]) -> None:
    """Suites that were added, and runs of suites with how many tasks are done."""
    out = console()
    table = Table(box=box.SIMPLE)
    for column in ("suite", "folder", "commit"):
        table.add_column(column, overflow="fold")
    for suite in suites:
        table.add_row(suite.name, suite.root, suite.commit[:12])
    if suites:
        out.print(table)
    else:
        out.print("no suites yet; add one with: kernelskill suite add NAME --from PATH")
    if runs:
        table = Table(box=box.SIMPLE)
        for column in ("run", "of", "kind", "preset", "done"):
            table.add_column(column, overflow="fold")
        for manifest, done in runs:
            total = len(manifest.suite.tasks)
            table.add_row(
                manifest.id, manifest.suite.name, manifest.kind, manifest.preset, f"{done} of {total}"
            )
        out.print(table)


def print_tasks(suite: Suite) -> None:
    """What a suite holds."""
    table = Table(box=box.SIMPLE)
    for column in ("task", "level", "number", "sha256"):
        table.add_column(column, overflow="fold")
    for task in suite.tasks:
        table.add_row(task.key, _text(task.level), _text(task.number), task.hash[:12])
    console().print(table)
    console().print(f"{len(suite.tasks)} tasks in {suite.root}", soft_wrap=True)


def print_line(result: TaskResult, done: int, of: int) -> None:
    """A task that has just finished."""
    answer = result.answer
    over = (
        f" {numbers.ratio(min(i.value for i in answer.over.values()))} over best stock"
        if answer and answer.over
        else ""
    )
    colour = COLOURS[result.outcome]
    why = f" [dim]{escape(result.reason[:160])}[/]" if result.reason else ""
    console(error=True).print(
        f"[dim]{done:4d}/{of}[/] {escape(result.key)} [{colour}]{result.outcome.value}[/]{over}"
        f" [dim]{numbers.seconds(result.wall_s)}[/]{why}",
        soft_wrap=True,
    )


def print_score(score: SuiteScore, results: Sequence[TaskResult], folder: Path) -> None:
    """The score, every failure and fallback with its reason, and where the rest lies."""
    out = console()
    out.print(f"[bold]{escape(score.id)}[/]: {escape(headline(score))}", soft_wrap=True)
    if score.kind in ("run", "candidates"):
        out.print(_counts(score.groups))
        out.print(_speedups(score.groups))
        out.print(
            "success = a verified candidate that is no stock recipe; faster = it beats best stock beyond the noise; "
            "fast_p by the interval's lower end, beyond the noise; means count 1.0 for a task without a faster answer, "
            "(v) = over verified candidates alone",
            style="dim",
        )
        if score.samples > 1:
            out.print(f"best of up to {score.samples} candidates a task", style="dim")
    if score.preset:
        out.print(f"preset {score.preset}; the same candidates by our own rule:")
        for status, row in score.by_second_rule.items():
            told = ", ".join(f"{count} {name}" for name, count in row.items())
            out.print(f"  {status} by the preset: {told}")
    if score.kind == "baselines":
        out.print(_stock(results))
    _print_endings(results)
    for key, reason in score.set_aside.items():
        out.print(f"[magenta]set aside[/] {escape(key)}: {escape(reason[:200])}", soft_wrap=True)
    spent = ", ".join(f"{kind} {duration(value)}" for kind, value in list(score.spent_s.items())[:6])
    idle = f"; GPUs idle {numbers.percent(score.idle_ratio)}" if score.idle_ratio is not None else ""
    out.print(
        f"wall {duration(score.wall_s)}, tasks {duration(score.task_s)} ({spent}){idle}",
        soft_wrap=True,
    )
    if score.gpu_s:
        held = ", ".join(f"{how} {duration(seconds)}" for how, seconds in score.gpu_s.items())
        out.print(f"of the tasks' time with a GPU: {held}", soft_wrap=True)
    if score.model.calls:
        out.print(
            f"language models: {score.model.calls} calls, {score.model.tokens} tokens, ${score.model.usd:.2f}"
        )
    for name in ("results.jsonl", "results.csv", "score.json", "suite.html"):
        out.print(str(folder / name), soft_wrap=True)


def print_status(
    manifest: SuiteManifest, results: Sequence[TaskResult], running: Sequence[str], left: int
) -> None:
    """How far a run is."""
    out = console()
    counts = {outcome: sum(item.outcome is outcome for item in results) for outcome in TaskOutcome}
    told = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    out.print(
        f"[bold]{escape(manifest.id)}[/]: {len(results)} of {len(manifest.suite.tasks)} tasks done"
        f"{f' ({told})' if told else ''}"
    )
    if running:
        out.print(f"working on {escape(', '.join(running))}", soft_wrap=True)
    if left:
        out.print(
            f"{left} left; carry on with: kernelskill suite resume {escape(manifest.id)}", soft_wrap=True
        )


def print_comparison(found: SuiteComparison) -> None:
    """Two runs side by side."""
    out = console()
    out.print(
        f"[bold]{escape(found.second)}[/] against {escape(found.first)}: {found.shared} tasks in both",
        soft_wrap=True,
    )
    for text in found.differs:
        out.print(f"[yellow]differs[/] {escape(text)}", soft_wrap=True)
    for over, ratio in found.ratio.items():
        out.print(
            f"speedup over {over}, second / first: {numbers.interval(ratio)} "
            f"(geometric mean of {found.verified_in_both})"
        )
    counts = ", ".join(
        f"{found.count(kind)} {kind}" for kind in ("better", "worse", "same", "gained", "lost")
    )
    out.print(counts)
    changed = [item for item in found.changes if item.change != "same" or item.before is not item.after]
    if changed:
        table = Table(box=box.SIMPLE)
        for column in ("task", "", "first", "second", "over best stock, first", "second"):
            table.add_column(column, overflow="fold")
        for item in changed:
            table.add_row(
                item.key, item.change, item.before.value, item.after.value,
                numbers.interval(item.over_stock_before), numbers.interval(item.over_stock_after),
            )  # fmt: skip
        out.print(table)


def _counts(groups: Sequence[GroupScore]) -> Table:
    table = Table(box=box.SIMPLE)
    for head in (
        "",
        "tasks",
        "success",
        "faster",
        "fallback",
        "rejected",
        "untestable",
        "failed",
        "share of floor",
    ):
        table.add_column(head)
    for item in groups:
        table.add_row(
            escape(item.group), str(item.tasks), _share(item.success, item.tasks), str(item.faster), str(item.fallback),
            str(item.rejected), str(item.untestable), str(item.failed), numbers.percent(item.floor_share_ratio),
        )  # fmt: skip
    return table


def _speedups(groups: Sequence[GroupScore]) -> Table:
    table = Table(box=box.SIMPLE)
    for head in (
        "",
        "over",
        "fast 1 / 1.1 / 1.5 / 2",
        "geomean",
        "mean",
        "geomean (v)",
        "mean (v)",
        "median (v)",
    ):
        table.add_column(head)
    for item in groups:
        for name, over in (("best stock", item.stock), ("eager", item.eager)):
            table.add_row(
                escape(item.group) if name == "best stock" else "", name, _fast(over.fast_ratio),
                numbers.ratio(over.geomean_all), numbers.ratio(over.mean_all), numbers.ratio(over.geomean_verified),
                numbers.ratio(over.mean_verified), numbers.ratio(over.median_verified),
            )  # fmt: skip
    return table


def _stock(results: Sequence[TaskResult]) -> Table:
    rows = rows_of(results, {})
    names = arms_of(results)
    table = Table(box=box.SIMPLE)
    for head in ("task", "floor", *(f"{arm} ({precision})" for precision, arm in names), "best"):
        table.add_column(head, overflow="fold")
    for row in rows:
        cells = []
        for precision, arm in names:
            time = row.result.stock[precision].arms.get(arm) if precision in row.result.stock else None
            cells.append(numbers.milliseconds(time.median_ms if time else None))
        best = ", ".join(f"{times.best_arm} ({precision})" for precision, times in row.result.stock.items())
        table.add_row(row.result.key, numbers.milliseconds(row.result.floor_ms), *cells, best)
    return table


def _print_endings(results: Sequence[TaskResult]) -> None:
    """Every task that has no faster answer, with its reason."""
    for row in rows_of(results, {}):
        item = row.result
        if item.outcome in (TaskOutcome.FASTER, TaskOutcome.UNTESTABLE) or not item.reason:
            continue
        console().print(
            f"[{COLOURS[item.outcome]}]{item.outcome.value}[/] {escape(item.key)}: {escape(item.reason[:240])}",
            soft_wrap=True,
        )


def _fast(shares: dict[str, float]) -> str:
    return " / ".join(f"{100 * share:.0f}" for share in shares.values()) + " %"


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / max(1, total):.0f} %)"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def console(*, error: bool = False) -> Console:
    """Standard output or error; outside a terminal lines may be as long as they need to be."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS", "160"))
    return Console(file=stream, width=width, highlight=False)
