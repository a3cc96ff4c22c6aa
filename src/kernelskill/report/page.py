"""Run -> report.html: one self-contained file, light and dark, printable, readable without scripts."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from kernelskill.records import Attempt, Run
from kernelskill.report import cost, figures, numbers, story
from kernelskill.report.pages import template


@dataclass
class Branch:
    """An attempt and those that started from it."""

    attempt: Attempt
    reason: str
    speedup: str
    on_the_way: bool
    children: list[Branch] = field(default_factory=list)


def render_page(run: Run) -> str:
    """The report of a run, finished or not.

    Returns:
        HTML text; everything that came from outside is escaped.
    """
    result = run.result
    promotion = result.promotion if result else None
    winner = story.winner(run)
    page: str = template("report.html.j2").render(
        run=run,
        result=result,
        promotion=promotion,
        winner=winner,
        skills=story.skills_of(winner) if winner else (),
        headline=story.headline(run),
        chain=story.chain(run),
        tree=branches(run),
        spent=story.time_spent(run),
        cost=cost,
        interval_figure=Markup(
            figures.intervals(promotion.comparisons, promotion.noise_band_ratio) if promotion else ""
        ),
        time_figure=Markup(figures.times(figures.time_rows(run))),
        source=Markup(_highlighted(winner.candidate.source)) if winner else "",
        source_style_light=Markup(_style("default")),
        source_style_dark=Markup(_style("monokai")),
    )
    return page


def branches(run: Run) -> list[Branch]:
    """Attempts as trees: first versions at the root, each below the candidate that it started from."""
    way = {link.attempt.candidate.id for link in story.chain(run)}
    arm = run.baselines.best_arm if run.baselines else "eager"
    nodes: dict[str, Branch] = {}
    roots: list[Branch] = []
    for attempt in run.attempts:
        speedup = attempt.evaluation.speedup(arm) if attempt.evaluation else None
        branch = Branch(
            attempt=attempt,
            reason=story.reason(attempt),
            speedup=numbers.interval(speedup) if speedup else "",
            on_the_way=attempt.candidate.id in way,
        )
        nodes[attempt.candidate.id] = branch
        parent = nodes.get(attempt.plan.base_id or attempt.candidate.parent_id)
        (parent.children if parent else roots).append(branch)
    return roots


def _highlighted(source: str) -> str:
    text: str = highlight(source, PythonLexer(), HtmlFormatter(cssclass="source", nowrap=False))
    return text


def _style(name: str) -> str:
    text: str = HtmlFormatter(style=name, cssclass="source").get_style_defs(".source")  # type: ignore[no-untyped-call]
    return text
