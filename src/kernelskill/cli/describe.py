"""A task from words: a model writes the reference with inputs and tests, it is proven, shown, and only then used."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kernelskill.errors import ConfigError, KernelSkillError

if TYPE_CHECKING:
    from kernelskill.config import Config

FOLDER = "described"


def described(description: str, settings: Config, agreed: bool) -> Path:
    """The file of the task that a description asks for.

    Args:
        description: in words.
        settings: model, target, and the folder of runs, in which the task is kept beside the calls that wrote it.
        agreed: whether to go on without asking.

    Raises:
        ConfigError: nobody is there to agree.
        ModelError: no usable answer, no model, or no budget.
    """
    from kernelskill.agents.llm.task_writer import write_task
    from kernelskill.config import require_torch
    from kernelskill.llm import open_access

    require_torch()
    name = hashlib.sha256(f"{settings.target}\n{description}".encode()).hexdigest()[:12]
    folder = settings.runs / FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    source = write_task(
        open_access(settings.llm, folder),
        settings.llm,
        description,
        settings.target,
        lambda text: _fault(text, settings, folder),
    )
    file = folder / "task.py"
    file.write_text(source, encoding="utf-8")
    print(source, file=sys.stderr)
    print(f"The reference and its tests, which pass: {file}", file=sys.stderr)
    if not agreed and not _says_yes():
        raise typer.Exit(1)
    return file


def _fault(source: str, settings: Config, folder: Path) -> str:
    """Run the tests, then the task itself, confined; what went wrong, or ""."""
    from kernelskill.agents.llm.task_writer import CHECKS, with_checks
    from kernelskill.config import build_evaluator
    from kernelskill.tasks import load_task

    draft, checked = folder / "draft.py", folder / "checks.py"
    draft.write_text(source, encoding="utf-8")
    checked.write_text(with_checks(source), encoding="utf-8")
    for target, inputs in ((f"{checked}:{CHECKS}", "[torch.zeros(4)]"), (str(draft), None)):
        try:
            evaluator = build_evaluator(settings, load_task(target, inputs=inputs))
            try:
                findings = evaluator.describe().findings
            finally:
                evaluator.close()
        except KernelSkillError as error:
            return str(error)
        fatal = [finding.message for finding in findings if finding.fatal]
        if fatal and inputs is None:
            return f"The task can prove nothing: {'; '.join(fatal)}"
    return ""


def _says_yes() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to agree to the task: look at it and give --yes")
    return typer.confirm("Make this faster?", err=True)
