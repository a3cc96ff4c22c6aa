"""What all commands share: their options, settings, and how an error of ours is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelskill.errors import KernelSkillError

TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="KernelBench-style file (Model, get_inputs), FILE.py:NAME, or PACKAGE.MODULE:NAME.",
    ),
]
OptionalTask = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="KernelBench-style file (Model, get_inputs), FILE.py:NAME, or PACKAGE.MODULE:NAME; or use --describe.",
        show_default=False,
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
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="live (may change between calls), or frozen: a track of its own, whose stock arms fold them in too.",
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

AgentsOption = Annotated[
    str | None,
    typer.Option("--agents", help="Who plays: expert (no model needed), llm, or expert,llm in turn."),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Language model as PROVIDER:NAME: openai:, anthropic:, google:, bedrock:, ollama:, vllm:, "
        "openai-compatible:http://HOST/v1#NAME, command:PROGRAM (prompt on its standard input).",
    ),
]
HintOption = Annotated[Path | None, typer.Option("--hint", help="File of design hints for the model.")]
DescribeOption = Annotated[
    str | None,
    typer.Option(
        "--describe", help="What to compute, in words: a model writes the reference and its tests first."
    ),
]
MaxUsdOption = Annotated[float | None, typer.Option(min=0, help="Dollars for models, never passed.")]
MaxCallsOption = Annotated[int | None, typer.Option(min=0, help="Calls of models, never passed.")]
MaxTokensOption = Annotated[int | None, typer.Option(min=0, help="Tokens of models, never passed.")]
ReplayOption = Annotated[
    str | None,
    typer.Option("--replay", metavar="RUN", help="Use the replies that a run recorded; asks no model."),
]


def settings_of(file: Path | None, **flags: Any) -> Any:
    """Settings from defaults, file and flags."""
    from kernelskill.config import load_config

    return load_config(file, **flags)


def guarded(work: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Run a command; our own errors become one clear line (or a JSON document) and exit code 2."""
    try:
        outcome = work()
    except KernelSkillError as error:
        if as_json:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(f"kernelskill: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps(outcome["document"], allow_nan=False, default=str))
    if outcome.get("code"):
        raise typer.Exit(outcome["code"])
