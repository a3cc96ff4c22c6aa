"""Judge what others wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    guarded,
    settings_of,
)


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

        settings = settings_of(
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

    guarded(work, as_json)
