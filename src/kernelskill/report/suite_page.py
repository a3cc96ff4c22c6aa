"""One self-contained page of a suite run: score, figures, and a row a task that sorts and filters. Loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.records import SuiteManifest, SuiteScore, SuiteSession, TaskResult
from kernelskill.report import suite_figures
from kernelskill.report.pages import template
from kernelskill.report.suite_story import duration, headline, suite_command
from kernelskill.report.suite_table import rows_of

MORE = {"By class of work": "work: ", "By skill, of the answers that are faster": "skill: "}
"""Folded tables -> how the names of their groups begin."""


def render_suite(
    manifest: SuiteManifest,
    results: Sequence[TaskResult],
    score: SuiteScore,
    sessions: Sequence[SuiteSession],
) -> str:
    """The page as text."""
    rows = rows_of(results, score.set_aside)
    written = manifest.kind in ("run", "candidates")
    return template("suite.html.j2", duration=duration, anchor=suite_figures.anchor).render(
        manifest=manifest,
        score=score,
        sessions=sessions,
        rows=rows,
        written=written,
        headline=headline(score),
        whole=score.groups[0],
        main_groups=[item for item in score.groups if not item.group.startswith(tuple(MORE.values()))],
        more_groups={
            title: [item for item in score.groups if item.group.startswith(prefix)]
            for title, prefix in MORE.items()
        },
        fast_figure=suite_figures.fast_curve(rows) if written else "",
        ranked_figure=suite_figures.ranked(rows) if written else "",
        outcome_figure=suite_figures.outcomes(rows),
        precisions=list(dict.fromkeys(name for item in results for name in item.stock)),
        arms=list(
            dict.fromkeys(arm for item in results for times in item.stock.values() for arm in times.arms)
        ),
        levels=sorted({item.level for item in results if item.level is not None}),
        works=sorted({item.work for item in results if item.work}),
        endings=sorted({item.outcome.value for item in results}),
        command=suite_command(manifest),
    )
