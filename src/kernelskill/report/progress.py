"""What a person sees while a run goes on."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.status import Status as Spinner

from kernelskill.protocols import Progress
from kernelskill.records import Attempt, Outcome
from kernelskill.report import numbers
from kernelskill.report.story import reason

MARKS = {
    Outcome.SEED: "[green]seed[/]",
    Outcome.NEW_BASE: "[bold green]faster[/]",
    Outcome.NOT_FASTER: "[yellow]kept back[/]",
    Outcome.FAILED: "[red]failed[/]",
    Outcome.REPAIRED: "[red]failed[/]",
    Outcome.DUPLICATE: "[dim]duplicate[/]",
}


class SilentProgress:
    """Says nothing."""

    def stage(self, name: str, detail: str = "") -> None:
        """Nothing."""

    def attempt(self, attempt: Attempt, best_speedup: float | None) -> None:
        """Nothing."""

    def done(self) -> None:
        """Nothing."""


class LineProgress:
    """A line an event on standard error; with a terminal, the current step as a spinner instead."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._spinner: Spinner | None = None

    def stage(self, name: str, detail: str = "") -> None:
        """Show the step that begins."""
        text = f"{self._elapsed()} [cyan]{escape(name)}[/] {escape(detail)}"
        if not self._console.is_terminal:
            self._console.print(text, soft_wrap=True)
        elif self._spinner is None:
            self._spinner = self._console.status(text)
            self._spinner.start()
        else:
            self._spinner.update(text)

    def attempt(self, attempt: Attempt, best_speedup: float | None) -> None:
        """Show how an attempt ended."""
        edit = attempt.plan.edits[-1] if attempt.plan.edits else None
        what = edit.summary or edit.key if edit else attempt.plan.reason
        why = reason(attempt)
        best = f"  best {numbers.ratio(best_speedup)} over best stock" if best_speedup else ""
        self._console.print(
            f"{self._elapsed()} {attempt.candidate.id} {MARKS[attempt.outcome]} "
            f"[bold]{escape(attempt.plan.skill)}[/] {escape(what)}"
            f"{f' [dim]({escape(why)})[/]' if why else ''}{best}",
            soft_wrap=True,
        )

    def done(self) -> None:
        """Take the spinner away."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def _elapsed(self) -> str:
        return f"[dim]{time.monotonic() - self._began:6.1f} s[/]"


def live(quiet: bool = False) -> Progress:
    """The progress to show: nothing, or lines (and a spinner, where there is a terminal)."""
    return SilentProgress() if quiet else LineProgress(Console(file=sys.stderr, highlight=False))
