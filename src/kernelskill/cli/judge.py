"""Judge what others wrote, and hold the judge itself to known cheats."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelskill.cli.options import (
    ConfigOption,
    InitOption,
    InputsOption,
    JsonFlag,
    PrecisionOption,
    SandboxOption,
    TargetOption,
    ThreadsOption,
    WeightsOption,
    guarded,
    settings_of,
)

if TYPE_CHECKING:
    from kernelskill.evaluation.conformance.outcome import Outcome
    from kernelskill.evaluation.conformance.play import Played

app = typer.Typer(help="The judge itself.", no_args_is_help=True)
HEXADECIMAL = 64
"""Digits of a seed."""


def evaluate(
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="As TASK of optimize.")],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="File that defines ModelNew.")],
    inputs: InputsOption = None,
    init: InitOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    precision: PrecisionOption = None,
    weights: WeightsOption = None,
    threads: ThreadsOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Screen only; no re-timing in fresh processes.")
    ] = False,
    tolerance: Annotated[
        str | None, typer.Option(help="relative, kernelbench (allclose 1e-4) or kernelbench-v0 (1e-2).")
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            help="Labels that may pass, comma-separated: custom, library, compile, graph, algebraic."
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="HEX|FILE",
            help="Seed of an earlier evaluation (or its JSON file): the same inputs again, byte for byte.",
        ),
    ] = None,
    require_sandbox: SandboxOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge a candidate against a reference. Exit code 0: verified; 1: not; 2: could not be judged."""

    def work() -> dict[str, Any]:
        from kernelskill import api
        from kernelskill.errors import ConfigError
        from kernelskill.records import Status
        from kernelskill.report import live, print_evaluation

        settings = settings_of(
            config,
            target=target,
            precision=precision,
            weights=weights,
            threads=threads,
            tolerance=tolerance,
            require_sandbox=require_sandbox,
            allow=[label.strip() for label in allow.split(",")] if allow else None,
        )
        if not candidate.is_file():
            raise ConfigError(f"candidate file {candidate} does not exist")
        progress = live(quiet=as_json)
        try:
            verdict = api.evaluate(
                reference, candidate, inputs=inputs, init=init, config=settings, quick=quick, seed=seed_of(seed),
                progress=lambda line: progress.stage("evaluate", line),
            )  # fmt: skip
        finally:
            progress.done()
        if not as_json:
            print_evaluation(verdict)
        return {
            "document": verdict.model_dump(mode="json"),
            "code": 0 if verdict.status is Status.PASSED else 1,
        }

    guarded(work, as_json)


def seed_of(given: str | None) -> str:
    """The seed itself, from hexadecimal digits or from the JSON of an evaluation; "" for none.

    Raises:
        ConfigError: neither.
    """
    from kernelskill.errors import ConfigError

    if not given:
        return ""
    text = given
    if Path(given).is_file():
        try:
            text = str(json.loads(Path(given).read_text(encoding="utf-8"))["seed"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{given} holds no evaluation with a seed") from error
    if len(text) != HEXADECIMAL or set(text) - set("0123456789abcdef"):
        raise ConfigError(
            f"a seed has {HEXADECIMAL} hexadecimal digits (or is a file that exists): {given!r}"
        )
    return text


@app.command()
def selftest(
    target: Annotated[str, typer.Option("--target", help="cpu or cuda.")] = "cpu",
    only: Annotated[
        str | None, typer.Option(help="Ids or groups of cases, comma-separated; default: all.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks judged side by side; times get noisier.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Play known cheats and honest candidates against the judge.

    Exit code 1 if any verdict is not the right one, or a case has none; what was reached before an interrupt is told.
    """

    def work() -> dict[str, Any]:
        from kernelskill.config import require_torch
        from kernelskill.errors import ConfigError, WorkerError

        require_torch()
        from kernelskill.evaluation.conformance.play import chosen, play
        from kernelskill.session import describe_machine

        try:
            selected = chosen(target, [word.strip() for word in only.split(",")] if only else [])
        except ValueError as error:
            raise ConfigError(str(error)) from error
        with _stopped_gently():
            played = play(selected, jobs=jobs, told=(lambda _: None) if as_json else _told)
        reasons = {item.reason for item in played.unplayed}
        if not played.outcomes and len(reasons) == 1:
            raise WorkerError(f"no case was played: {reasons.pop()}")
        if not as_json:
            _print_table(target, played)
        missed = [item for item in played.outcomes if item.miss]
        machine = describe_machine(settings_of(None, target=target))
        return {
            "document": {"machine": machine, **_document(target, played)},
            "code": 1 if missed or played.unplayed or not played.outcomes else 0,
        }

    guarded(work, as_json)


@contextmanager
def _stopped_gently() -> Iterator[None]:
    """Take a request to end (as `timeout` makes) for an interrupt, so that what is known is still told."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(outcome: Outcome) -> None:
    print(f"{'MISS' if outcome.miss else 'ok':5}{outcome.case.id}: {outcome.verdict}", file=sys.stderr)


def _print_table(target: str, played: Played) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("case", "what it tries", "due", "verdict", "credit", "seconds", box=None, pad_edge=False)
    for item in played.outcomes:
        credit = "-" if item.credit is None else f"{item.credit:.2f}x"
        verdict = f"[red]{item.verdict}: {escape(item.miss)}[/red]" if item.miss else item.verdict
        table.add_row(item.case.id, item.case.tries, item.case.expect, verdict, credit, f"{item.seconds:.1f}")
    for left in played.unplayed:
        table.add_row(
            left.case.id, left.case.tries, left.case.expect, f"[red]{escape(left.reason)}[/red]", "-", "-"
        )
    console = Console()
    console.print(table)
    document = _document(target, played)
    counts = document["counts"]
    console.print(
        f"{counts['cheats']} cheats, {counts['credited']} credited beyond their honest time or passed; "
        f"{counts['controls']} honest candidates, {counts['refused']} refused."
    )
    if played.unplayed:
        console.print(f"[red]{len(played.unplayed)} cases were not played.[/red]")
    if document["left_out"]:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in document["left_out"].items())
        console.print(f"{len(document['left_out'])} cases are for the processor alone ({reasons}).")


def _document(target: str, played: Played) -> dict[str, Any]:
    from kernelskill.evaluation.conformance.case import left_out

    cheats = [item for item in played.outcomes if not item.case.is_control]
    controls = [item for item in played.outcomes if item.case.is_control]
    return {
        "target": target,
        "counts": {
            "cheats": len(cheats),
            "credited": sum(bool(item.miss) for item in cheats),
            "controls": len(controls),
            "refused": sum(bool(item.miss) for item in controls),
            "not_played": len(played.unplayed),
        },
        "cases": [_row(item) for item in played.outcomes],
        "not_played": {item.case.id: item.reason for item in played.unplayed},
        "left_out": left_out(target),
    }


def _row(item: Outcome) -> dict[str, Any]:
    return {
        "id": item.case.id,
        "group": item.case.group,
        "tries": item.case.tries,
        "task": item.case.task,
        "due": item.case.expect,
        "verdict": item.verdict,
        "detail": item.detail,
        "credit_ratio": item.credit,
        "seconds": round(item.seconds, 2),
        "miss": item.miss,
    }
