"""Make a task faster: start a run, carry it on, list runs, tell how one went."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelskill.cli.options import (
    AgentsOption,
    ConfigOption,
    DescribeOption,
    HintOption,
    InitOption,
    InputsOption,
    JsonFlag,
    MaxCallsOption,
    MaxTokensOption,
    MaxUsdOption,
    ModelOption,
    OptionalTask,
    PrecisionOption,
    ReplayOption,
    RunArgument,
    RunsOption,
    SandboxOption,
    TargetOption,
    ThreadsOption,
    WeightsOption,
    guarded,
    settings_of,
)


def optimize(
    task: OptionalTask = None,
    inputs: InputsOption = None,
    init: InitOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    precision: PrecisionOption = None,
    weights: WeightsOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption = None,
    rounds: Annotated[int | None, typer.Option(min=0, help="Rounds after the first versions.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="No new round after so many wall seconds.")
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            help="Labels that may win, comma-separated: custom, library, compile, graph, algebraic."
        ),
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option(help="relative (error against fp64), or kernelbench (allclose 1e-4).")
    ] = None,
    skills: Annotated[list[Path] | None, typer.Option(help="Further skill folder; may be repeated.")] = None,
    search: Annotated[
        str | None, typer.Option(help="What is worked on next: greedy, beam, evolutionary, bandit.")
    ] = None,
    no_evidence: Annotated[bool, typer.Option("--no-evidence", help="Read and keep no evidence.")] = False,
    require_sandbox: SandboxOption = None,
    agents: AgentsOption = None,
    model: ModelOption = None,
    hint: HintOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    replay: ReplayOption = None,
    describe: DescribeOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to the task that --describe gave.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a task faster, verified; ends with best.py and report.html in the run's folder."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.tasks import load_task

        settings = settings_of(
            config, target=target, precision=precision, weights=weights, threads=threads, runs=runs,
            tolerance=tolerance, require_sandbox=require_sandbox, skills=skills or None, search=search,
            budget={"rounds": rounds, "seconds": seconds},
            allow=[label.strip() for label in allow.split(",")] if allow else None,
            agents=[name.strip() for name in agents.split(",")] if agents else None,
            llm={
                "model": model, "hints": hints_in(hint), "replay": replay and recorded(replay, config, runs),
                "limits": {"usd": max_usd, "calls": max_calls, "tokens": max_tokens},
            },
        )  # fmt: skip
        if no_evidence:
            settings = settings.model_copy(update={"evidence": None})
        wanted = _wanted(task, describe, settings, yes)
        folder = session.begin(
            settings,
            lambda storage: load_task(
                wanted,
                inputs=inputs,
                init=init,
                precision=settings.precision,
                weights=settings.weights,
                storage=storage,
            ),
        )
        return carry_on(folder, as_json)

    guarded(work, as_json)


def resume(
    run: RunArgument, runs: RunsOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Carry on a run that was interrupted or killed; nothing that was recorded is done again."""

    def work() -> dict[str, Any]:
        from kernelskill import session

        return carry_on(session.find_run(settings_of(config, runs=runs), run), as_json)

    guarded(work, as_json)


def runs(folder: RunsOption = None, config: ConfigOption = None, as_json: JsonFlag = False) -> None:
    """List runs: what was asked, how it ended, how much was gained."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.journal import load_run
        from kernelskill.report import print_runs, summary

        found = [load_run(path) for path in session.list_runs(settings_of(config, runs=folder))]
        if not as_json:
            print_runs(found)
        return {"document": {"runs": [summary(run) for run in found]}}

    guarded(work, as_json)


def report(
    run: RunArgument, folder: RunsOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Tell how a run went, and write its report.html afresh."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.journal import load_run, write_atomically
        from kernelskill.report import print_run, render_page

        path = session.find_run(settings_of(config, runs=folder), run)
        loaded = load_run(path)
        write_atomically(path / session.REPORT, render_page(loaded))
        if not as_json:
            print_run(loaded, path)
        return {"document": loaded.model_dump(mode="json")}

    guarded(work, as_json)


def _wanted(task: str | None, description: str | None, settings: Any, agreed: bool) -> str:
    """The task given, or one written from a description.

    Raises:
        ConfigError: neither or both were given.
    """
    from kernelskill.errors import ConfigError

    if (task is None) == (description is None):
        raise ConfigError("give a TASK, or --describe 'what to compute'")
    if description is None:
        return str(task)
    from kernelskill.cli.describe import described

    return str(described(description, settings, agreed))


def hints_in(file: Path | None) -> str | None:
    """Text of a file of hints.

    Raises:
        ConfigError: it cannot be read.
    """
    from kernelskill.errors import ConfigError

    try:
        return None if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"hint file {file} cannot be read: {error}") from error


def recorded(run: str, config: Path | None, runs: Path | None) -> str:
    """The folder of a run whose replies are used again."""
    from kernelskill import session

    return str(session.find_run(settings_of(config, runs=runs), run).resolve())


def carry_on(folder: Path, as_json: bool) -> dict[str, Any]:
    """Work on a run to its end, showing progress."""
    from kernelskill import session
    from kernelskill.report import live, print_run

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended from outside: as tidily as by a person
    try:
        run = session.carry_on(folder, live(quiet=as_json))
    except KeyboardInterrupt:
        print(f"interrupted; carry on with: kernelskill resume {folder.name}", file=sys.stderr)
        raise typer.Exit(130) from None
    if not as_json:
        print_run(run, folder)
    return {"document": {"folder": str(folder), **run.model_dump(mode="json")}}
