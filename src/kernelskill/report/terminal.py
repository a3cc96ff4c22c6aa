"""Summaries for the terminal; clean text where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelskill.records import Ceilings, Evaluation, Floor, Run, Status, Task, Workload
from kernelskill.report import cost, numbers, story


class CheckLike(Protocol):
    """One line of `doctor`."""

    name: str
    ok: bool
    needed: bool
    found: str
    remedy: str


def print_run(run: Run, folder: Path) -> None:
    """What won, against which baselines, how far from the floor, and where the report lies."""
    console = _console()
    console.print(f"[bold]{escape(run.task.name)}[/]: {escape(story.headline(run))}")
    result = run.result
    if result and result.promotion:
        console.print(_comparisons(result.promotion, run.baselines.best_arm if run.baselines else ""))
    if run.floor and run.baselines:
        console.print(
            f"floor {numbers.milliseconds(run.floor.floor_ms)} ({run.floor.bound}-bound); "
            f"best stock {numbers.milliseconds(run.baselines.best_ms)} ({run.baselines.best_arm})"
            + (
                f"; answer at {numbers.percent(result.floor_share_ratio)} of the floor's speed"
                if result
                else ""
            )
        )
    for link in story.chain(run):
        attempt = link.attempt
        facts = ", ".join(f"{name}={_short(value)}" for name, value in link.facts.items())
        speedup = f" {numbers.ratio(link.speedup)} over {attempt.candidate.parent_id}" if link.speedup else ""
        console.print(
            f"  round {attempt.round} [bold]{escape(attempt.plan.skill)}[/]{speedup}"
            f"{f' [dim]because {escape(facts)}[/]' if facts else ''}",
            soft_wrap=True,
        )
    if run.model_calls:
        console.print(_costs(run))
        console.print(escape(cost.headline(run)), soft_wrap=True)
    if result:
        console.print(f"stopped: {result.stop.value} ({escape(result.stop_detail)})", soft_wrap=True)
        console.print(f"answer   {folder / 'best.py'}", soft_wrap=True)
        console.print(f"report   {folder / 'report.html'}", soft_wrap=True)


def print_evaluation(evaluation: Evaluation) -> None:
    """The verdict, its reason, and the speedups of a verified candidate."""
    console = _console()
    passed = evaluation.status is Status.PASSED
    console.print(f"verdict  [bold {'green' if passed else 'red'}]{evaluation.status.value}[/]")
    if evaluation.detail:
        console.print(escape(evaluation.detail.strip()), soft_wrap=True)
    if evaluation.hint:
        console.print(f"[dim]{escape(evaluation.hint)}[/]", soft_wrap=True)
    if passed:
        times = {timing.arm: timing.median_ms for timing in evaluation.timings}
        stock = [item.arm for item in evaluation.comparisons if item.arm in times]
        console.print(_comparisons(evaluation, min(stock, key=lambda arm: times[arm], default="")))
        console.print(f"tier {evaluation.tier}; labels {', '.join(evaluation.labels.kinds) or 'none'}")
        for flag in evaluation.labels.flags:
            console.print(f"[yellow]flag[/] {escape(flag)}", soft_wrap=True)
    took = numbers.seconds(evaluation.machine_s)
    console.print(f"[dim]sandbox {escape(evaluation.sandbox)}; judged in {took}, baselines not counted[/]")


def print_floor(task: Task, workload: Workload, floor: Floor, ceilings: Ceilings) -> None:
    """The time below which no program can go, and what it rests on."""
    console = _console()
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_row("bytes that must move", numbers.count(floor.bytes_min, "B"))
    table.add_row("floating-point operations", numbers.count(floor.flops, "FLOP"))
    table.add_row("transcendentals", numbers.count(floor.transcendentals))
    table.add_row("operators eager dispatches", str(floor.launches))
    table.add_row("memory / compute / overhead", " / ".join(
        numbers.milliseconds(value) for value in (floor.memory_ms, floor.compute_ms, floor.overhead_ms)
    ))  # fmt: skip
    table.add_row("floor", f"[bold]{numbers.milliseconds(floor.floor_ms)}[/] ({floor.bound}-bound)")
    table.add_row("eager, once, warm", numbers.milliseconds(workload.eager_ms))
    console.print(f"[bold]{escape(task.name)}[/] on {escape(ceilings.device)}, {ceilings.threads} threads")
    console.print(table)
    for finding in workload.findings:
        console.print(f"[{'red' if finding.fatal else 'yellow'}]{finding.code}[/] {escape(finding.message)}")


def print_checks(checks: Sequence[CheckLike]) -> None:
    """What this machine has and lacks."""
    table = Table(box=box.SIMPLE)
    for column in ("check", "", "found", "what to do"):
        table.add_column(column)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]missing[/]" if check.needed else "[yellow]less[/]"
        table.add_row(check.name, mark, escape(check.found), "" if check.ok else escape(check.remedy))
    _console().print(table)


def print_runs(runs: Sequence[Run]) -> None:
    """One line a run."""
    console = _console()
    if not runs:
        console.print("no runs yet; start one with: kernelskill optimize TASK")
        return
    table = Table(box=box.SIMPLE)
    for column in ("run", "ended", "answer", "over best stock", "attempts", "time"):
        table.add_column(column, overflow="fold")
    for run in runs:
        row = story.summary(run)
        table.add_row(
            run.id, row["stop"] or "unfinished", row["winner"] or numbers.MISSING,
            numbers.ratio(row["speedup_over_best_stock"]), str(row["attempts"]), numbers.seconds(row["machine_s"]),
        )  # fmt: skip
    console.print(table)


def _costs(run: Run) -> Table:
    """Calls, tokens and dollars by role, then by round."""
    table = Table(box=box.SIMPLE)
    for column in ("models", "calls", "tokens in", "tokens out", "dollars", "waiting"):
        table.add_column(column)
    for title, rows in (("", cost.by_role(run)), ("round ", cost.by_round(run)[:-1])):
        for row in rows:
            tokens = [
                numbers.MISSING if count is None else str(count)
                for count in (row.input_tokens, row.output_tokens)
            ]
            dollars = numbers.MISSING if row.usd is None else f"{row.usd:.4f}"
            table.add_row(title + row.name, str(row.calls), *tokens, dollars, numbers.seconds(row.seconds))
    return table


def _comparisons(evaluation: Evaluation, best_arm: str) -> Table:
    table = Table(box=box.SIMPLE)
    for column in ("baseline", "its time", "ours", "speedup [95 % interval]", ""):
        table.add_column(column)
    times = {timing.arm: timing.median_ms for timing in evaluation.timings}
    for item in evaluation.comparisons:
        name = f"{item.arm} (best stock)" if item.arm == best_arm else item.arm
        table.add_row(
            name, numbers.milliseconds(times.get(item.arm)), numbers.milliseconds(times.get("candidate")),
            numbers.interval(item.speedup), "" if item.significant else "no significant change",
        )  # fmt: skip
    return table


def _short(value: object) -> str:
    return numbers.significant(value) if isinstance(value, float) else str(value)


def _console() -> Console:
    """Standard output; outside a terminal lines may be as long as they need to be."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160"))
    return Console(width=width, highlight=False)
