"""Thin commands. Nothing here decides anything; `--help` loads neither torch nor the rooms behind the commands."""

import typer

from kernelskill.cli import ablate, judge, machine, memory, run, skills, suite

app = typer.Typer(
    rich_markup_mode=None,  # rich help costs a tenth of a second
    name="kernelskill",
    help="Give it PyTorch code; get back a faster implementation proven to compute the same, with the evidence.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (
    run.optimize,
    run.resume,
    judge.evaluate,
    machine.floor,
    machine.doctor,
    run.runs,
    run.report,
    ablate.ablate,
):
    app.command()(command)
app.add_typer(skills.app, name="skills")
app.add_typer(memory.app, name="memory")
app.add_typer(suite.app, name="suite")
app.add_typer(judge.app, name="judge")


def main() -> None:
    """Entry point of the `kernelskill` command."""
    app()
