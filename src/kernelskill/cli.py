"""Thin commands. Nothing here decides anything; `--help` loads neither torch nor the rooms behind the commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kernelskill.errors import KernelSkillError

app = typer.Typer(
    rich_markup_mode=None,  # rich help costs a tenth of a second
    name="kernelskill",
    help="Give it PyTorch code; get back a faster implementation proven to compute the same, with the evidence.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="KernelBench-style file (Model, get_inputs), FILE.py:NAME, or PACKAGE.MODULE:NAME.",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one strict JSON document and nothing else.")]
InputsOption = Annotated[
    str | None,
    typer.Option(
        "--inputs", help="Python expression giving the inputs, e.g. '[torch.randn(64, 1024)]'; runs confined."
    ),
]
InitOption = Annotated[
    str | None, typer.Option("--init", help="Python expression giving the constructor's arguments.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file of settings.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="Device to write for: cpu or cuda.")]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision", help="Accuracy owed: match (as accurate as eager as it is), fp32, tf32, reduced."
    ),
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of every arm.")]
RunsOption = Annotated[Path | None, typer.Option("--runs", help="Folder that run folders are made in.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, a part of it, its folder, or 'last'.")
]
SandboxOption = Annotated[
    str | None,
    typer.Option(
        "--require-sandbox", help="Refuse to run candidates below this level: full, partial, plain."
    ),
]


@app.command()
def optimize(
    task: TaskArgument,
    inputs: InputsOption = None,
    init: InitOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    precision: PrecisionOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption = None,
    rounds: Annotated[int | None, typer.Option(min=0, help="Rounds after the first versions.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Wall seconds for the whole run.")] = None,
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
    no_evidence: Annotated[bool, typer.Option("--no-evidence", help="Read and keep no evidence.")] = False,
    require_sandbox: SandboxOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a task faster, verified; ends with best.py and report.html in the run's folder."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.tasks import load_task

        settings = _settings(
            config, target=target, precision=precision, threads=threads, runs=runs, tolerance=tolerance,
            require_sandbox=require_sandbox, skills=skills or None, budget={"rounds": rounds, "seconds": seconds},
            allow=[label.strip() for label in allow.split(",")] if allow else None,
        )  # fmt: skip
        if no_evidence:
            settings = settings.model_copy(update={"evidence": None})
        folder = session.begin(
            settings,
            lambda storage: load_task(
                task, inputs=inputs, init=init, precision=settings.precision, storage=storage
            ),
        )
        return _carry_on(folder, as_json)

    _guarded(work, as_json)


@app.command()
def resume(
    run: RunArgument, runs: RunsOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Carry on a run that was interrupted or killed; nothing that was recorded is done again."""

    def work() -> dict[str, Any]:
        from kernelskill import session

        return _carry_on(session.find_run(_settings(config, runs=runs), run), as_json)

    _guarded(work, as_json)


@app.command()
def evaluate(
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="As TASK of optimize.")],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="File that defines ModelNew.")],
    inputs: InputsOption = None,
    init: InitOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    precision: PrecisionOption = None,
    threads: ThreadsOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Screen only; no re-timing in fresh processes.")
    ] = False,
    tolerance: Annotated[str | None, typer.Option(help="relative, or kernelbench (allclose 1e-4).")] = None,
    require_sandbox: SandboxOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge a candidate against a reference. Exit code 0: verified; 1: not; 2: could not be judged."""

    def work() -> dict[str, Any]:
        from kernelskill import api
        from kernelskill.errors import ConfigError
        from kernelskill.records import Status
        from kernelskill.report import live, print_evaluation

        settings = _settings(
            config,
            target=target,
            precision=precision,
            threads=threads,
            tolerance=tolerance,
            require_sandbox=require_sandbox,
        )
        if not candidate.is_file():
            raise ConfigError(f"candidate file {candidate} does not exist")
        progress = live(quiet=as_json)
        try:
            verdict = api.evaluate(
                reference, candidate, inputs=inputs, init=init, config=settings, quick=quick,
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

    _guarded(work, as_json)


@app.command()
def floor(
    task: TaskArgument,
    inputs: InputsOption = None,
    init: InitOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell the time below which no program can go on this machine, before any work is spent."""

    def work() -> dict[str, Any]:
        from kernelskill.config import build_evaluator, build_floor
        from kernelskill.report import print_floor
        from kernelskill.tasks import load_task

        settings = _settings(config, target=target, threads=threads)
        loaded = load_task(task, inputs=inputs, init=init, precision=settings.precision)
        evaluator = build_evaluator(settings, loaded)
        try:
            workload = evaluator.describe()
        finally:
            evaluator.close()
        model = build_floor(settings)
        bound, ceilings = model.floor(workload), model.ceilings()
        if not as_json:
            print_floor(loaded, workload, bound, ceilings)
        return {
            "document": {
                "task": loaded.id,
                "floor": bound.model_dump(mode="json"),
                "ceilings": ceilings.model_dump(mode="json"),
                "findings": [finding.model_dump(mode="json") for finding in workload.findings],
            }
        }

    _guarded(work, as_json)


@app.command()
def doctor(config: ConfigOption = None, as_json: JsonFlag = False) -> None:
    """Check this machine; what is missing is named with the command that installs it."""

    def work() -> dict[str, Any]:
        from kernelskill.doctor import examine
        from kernelskill.report import print_checks

        checks = examine(_settings(config))
        if not as_json:
            print_checks(checks)
        failed = any(check.needed and not check.ok for check in checks)
        return {"document": {"checks": [check.model_dump() for check in checks]}, "code": 1 if failed else 0}

    _guarded(work, as_json)


@app.command()
def runs(folder: RunsOption = None, config: ConfigOption = None, as_json: JsonFlag = False) -> None:
    """List runs: what was asked, how it ended, how much was gained."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.journal import load_run
        from kernelskill.report import print_runs, summary

        found = [load_run(path) for path in session.list_runs(_settings(config, runs=folder))]
        if not as_json:
            print_runs(found)
        return {"document": {"runs": [summary(run) for run in found]}}

    _guarded(work, as_json)


@app.command()
def report(
    run: RunArgument, folder: RunsOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Tell how a run went, and write its report.html afresh."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.journal import load_run, write_atomically
        from kernelskill.report import print_run, render_page

        path = session.find_run(_settings(config, runs=folder), run)
        loaded = load_run(path)
        write_atomically(path / session.REPORT, render_page(loaded))
        if not as_json:
            print_run(loaded, path)
        return {"document": loaded.model_dump(mode="json")}

    _guarded(work, as_json)


def main() -> None:
    """Entry point of the `kernelskill` command."""
    app()


def _settings(file: Path | None, **flags: Any) -> Any:
    from kernelskill.config import load_config

    return load_config(file, **flags)


def _carry_on(folder: Path, as_json: bool) -> dict[str, Any]:
    from kernelskill import session
    from kernelskill.report import live, print_run

    try:
        run = session.carry_on(folder, live(quiet=as_json))
    except KeyboardInterrupt:
        print(f"interrupted; carry on with: kernelskill resume {folder.name}", file=sys.stderr)
        raise typer.Exit(130) from None
    if not as_json:
        print_run(run, folder)
    return {"document": {"folder": str(folder), **run.model_dump(mode="json")}}


def _guarded(work: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Run a command; our own errors become one clear line (or a JSON document) and exit code 2."""
    try:
        outcome = work()
    except KernelSkillError as error:
        kind: Literal["error"] = "error"
        if as_json:
            print(json.dumps({kind: type(error).__name__, "message": str(error)}))
        else:
            print(f"kernelskill: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps(outcome["document"], allow_nan=False, default=str))
    if outcome.get("code"):
        raise typer.Exit(outcome["code"])
