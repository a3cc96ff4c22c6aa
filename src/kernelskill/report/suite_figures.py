"""Figures of a suite run, drawn as SVG here, so that the page loads nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from kernelskill.records import TaskOutcome
from kernelskill.records.suite import closest_arm, sure_speedup
from kernelskill.report import numbers
from kernelskill.report.suite_table import Row

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 12, 34
NAMES = 84
"""Room for the names of bars."""
STEPS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500)
ORDER = (
    TaskOutcome.FASTER, TaskOutcome.VERIFIED, TaskOutcome.STOCK, TaskOutcome.DESCRIBED, TaskOutcome.REJECTED,
    TaskOutcome.UNTESTABLE, TaskOutcome.FAILED,
)  # fmt: skip


def fast_curve(rows: Sequence[Row]) -> str:
    """fast_p over p: the share of all tasks that are surely faster than p times, for both baselines."""
    series = {
        "eager": sorted(sure_speedup(row.answer, "eager") for row in rows if row.answer and row.eager),
        "stock": sorted(
            sure_speedup(row.answer, closest_arm(row.answer)) for row in rows if row.answer and row.stock
        ),
    }
    lows = [low for values in series.values() for low in values]
    if not lows or not rows:
        return ""
    most = max(2.2, min(max(lows) * 1.05, 100.0))
    axis = _Log(0.5, most)
    parts = [*axis.ticks(), *_shares()]
    for name, values in series.items():
        points = [(0.5, _above(values, 0.5) / len(rows))]
        for value in values:
            if 0.5 <= value <= most:
                points += [(value, points[-1][1]), (value, _above(values, value) / len(rows))]
        points.append((most, points[-1][1]))
        path = " ".join(f"{axis.x(p):.1f},{_y(share):.1f}" for p, share in points)
        parts.append(f'<polyline class="curve {name}" points="{path}"/>')
    parts.append(_legend([("eager", "over eager"), ("stock", "over best stock")]))
    return _svg(HEIGHT, parts, "fast_p: share of tasks faster than p times the baseline")


def ranked(rows: Sequence[Row]) -> str:
    """Every verified candidate by its speedup over best stock, with its interval, slowest first."""
    shown = sorted((row for row in rows if row.stock), key=lambda row: row.stock.value if row.stock else 0.0)
    if not shown:
        return ""
    lows = [row.stock.low for row in shown if row.stock]
    highs = [row.stock.high for row in shown if row.stock]
    low, high = max(0.1, min(0.9, *lows) * 0.97), min(1000.0, max(1.15, *highs) * 1.03)

    def y(value: float) -> float:
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [
        _line(LEFT, y(step), WIDTH - RIGHT, y(step), step == 1)
        + f'<text class="tick" x="{LEFT - 6}" y="{y(step) + 4:.1f}" text-anchor="end">{step:g}x</text>'
        for step in _steps(low, high)
    ]
    width = (WIDTH - LEFT - RIGHT) / len(shown)
    radius = max(2.0, min(4.0, width / 2))
    for place, row in enumerate(shown):
        assert row.stock is not None
        x = LEFT + width * (place + 0.5)
        title = f"{row.result.key}: {numbers.interval(row.stock)} over best stock"
        parts.append(
            f'<a href="#{anchor(row.result.key)}" class="{row.result.outcome.value}"><title>{escape(title)}</title>'
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(row.stock.low):.1f}" y2="{y(row.stock.high):.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y(row.stock.value):.1f}" r="{radius:.1f}"/></a>'
        )
    told = f"{len(shown)} verified candidate{'s' if len(shown) > 1 else ''}, by speedup over best stock"
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{told}</text>')
    return _svg(HEIGHT, parts, "Speedup over best stock of every verified candidate")


def outcomes(rows: Sequence[Row]) -> str:
    """How tasks ended, a bar a level."""
    levels = sorted({row.result.level for row in rows if row.result.level is not None})
    bars = [(f"level {level}", [row for row in rows if row.result.level == level]) for level in levels]
    if len(bars) != 1:
        bars.append(("all", list(rows)))
    height = 30 * len(bars) + 40
    parts = []
    for place, (label, members) in enumerate(bars):
        x, y = float(NAMES), 4 + 30 * place
        parts.append(f'<text x="{NAMES - 8}" y="{y + 17}" text-anchor="end">{label}</text>')
        for outcome in ORDER:
            count = sum(row.result.outcome is outcome for row in members)
            if not count:
                continue
            width = (WIDTH - NAMES - RIGHT) * count / len(members)
            told = f'<text class="inside" x="{x + width / 2:.1f}" y="{y + 17}" text-anchor="middle">{count}</text>'
            parts.append(
                f'<g class="{outcome.value}"><title>{label}: {count} {outcome.value}</title>'
                f'<rect x="{x:.1f}" y="{y}" width="{max(width - 1, 1):.1f}" height="24" rx="2"/>'
                f"{told if width > 18 else ''}</g>"
            )
            x += width
    seen = [outcome.value for outcome in ORDER if any(row.result.outcome is outcome for row in rows)]
    x = NAMES
    for name in seen:
        parts.append(
            f'<g class="{name}"><rect x="{x}" y="{height - 26}" width="11" height="11" rx="2"/></g>'
            f'<text class="tick" x="{x + 16}" y="{height - 16}">{name}</text>'
        )
        x += 30 + 8 * len(name)
    return _svg(height, parts, "How tasks ended")


def anchor(key: str) -> str:
    """A task's place in the page."""
    return "task-" + "".join(letter if letter.isalnum() else "-" for letter in key)


class _Log:
    """A logarithmic axis of ratios."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def x(self, value: float) -> float:
        """Where a ratio stands."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[str]:
        """Lines and labels of round ratios."""
        return [
            _line(self.x(step), TOP, self.x(step), HEIGHT - BOTTOM, step == 1)
            + f'<text class="tick" x="{self.x(step):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{step:g}x</text>"
            for step in _steps(self.low, self.high)
        ]


def _steps(low: float, high: float) -> list[float]:
    inside = [step for step in STEPS if low <= step <= high]
    return (
        inside
        if len(inside) <= 9
        else [step for place, step in enumerate(inside) if place % 2 == 0 or step == 1]
    )


def _shares() -> list[str]:
    return [
        _line(LEFT, _y(share), WIDTH - RIGHT, _y(share))
        + f'<text class="tick" x="{LEFT - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]


def _line(x1: float, y1: float, x2: float, y2: float, is_one: bool = False) -> str:
    name = "grid one" if is_one else "grid"
    return f'<line class="{name}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _above(ordered: Sequence[float], value: float) -> int:
    return sum(low > value for low in ordered)


def _legend(items: Sequence[tuple[str, str]]) -> str:
    return "".join(
        f'<line class="curve {name}" x1="{WIDTH - 190}" x2="{WIDTH - 166}" '
        f'y1="{TOP + 12 + 18 * place}" y2="{TOP + 12 + 18 * place}"/>'
        f'<text x="{WIDTH - 158}" y="{TOP + 16 + 18 * place}">{escape(text)}</text>'
        for place, (name, text) in enumerate(items)
    )


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
