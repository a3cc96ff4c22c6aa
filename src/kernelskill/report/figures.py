"""Small SVG figures, drawn here so that the page needs no script and no second file."""

from __future__ import annotations

import math
from html import escape

from kernelskill.records import Comparison, Run
from kernelskill.report import numbers

WIDTH = 640
LEFT = 150
LABEL = 120
"""Room to the right for a number."""
ROW = 34


def intervals(comparisons: tuple[Comparison, ...], noise_band: float | None) -> str:
    """Speedups with their 95 % intervals on a logarithmic axis; the line at 1 and the A/A noise band."""
    if not comparisons:
        return ""
    values = [end for item in comparisons for end in (item.speedup.low, item.speedup.high)]
    low, high = min(0.9, *values) / 1.05, max(1.1, *values) * 1.05
    height = ROW * len(comparisons) + 34

    def x(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low)
        return LEFT + share * (WIDTH - LEFT - LABEL)

    parts = []
    if noise_band:
        left, right = x(1 - noise_band), x(1 + noise_band)
        parts.append(
            f'<rect class="band" x="{left:.1f}" y="6" width="{max(right - left, 1):.1f}" height="{height - 30}"/>'
        )
    parts.append(f'<line class="one" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="6" y2="{height - 24}"/>')
    for tick in _ticks(low, high):
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{height - 8}" text-anchor="middle">{tick:g}x</text>'
        )
    for index, item in enumerate(comparisons):
        y = 6 + ROW * index + ROW / 2
        kind = "good" if item.significant else "plain"
        speedup = item.speedup
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">over {escape(item.arm)}</text>'
            f'<line class="{kind}" x1="{x(speedup.low):.1f}" x2="{x(speedup.high):.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="{kind}" cx="{x(speedup.value):.1f}" cy="{y}" r="5"/>'
            f'<text class="value" x="{x(speedup.high) + 12:.1f}" y="{y + 4:.1f}">{numbers.ratio(speedup.value)}</text>'
        )
    return _svg(height, parts, "Speedup over each baseline, with 95 % intervals")


def times(rows: list[tuple[str, float, str]]) -> str:
    """Horizontal bars of milliseconds.

    Args:
        rows: (label, milliseconds, class), top to bottom; class is "floor", "ours" or "plain".
    """
    if not rows:
        return ""
    longest = max(value for _, value, _ in rows)
    height = ROW * len(rows) + 8
    parts = []
    for index, (label, value, kind) in enumerate(rows):
        y = 4 + ROW * index
        width = max(2.0, (WIDTH - LEFT - LABEL) * value / longest)
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 21}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="bar {kind}" x="{LEFT}" y="{y + 6}" width="{width:.1f}" height="20" rx="3"/>'
            f'<text class="value" x="{LEFT + width + 10:.1f}" y="{y + 21}">{numbers.milliseconds(value)}</text>'
        )
    return _svg(height, parts, "Time per call")


def time_rows(run: Run) -> list[tuple[str, float, str]]:
    """Floor, answer and every baseline of a run, fastest first."""
    rows: list[tuple[str, float, str]] = []
    promotion = run.result.promotion if run.result else None
    timings = promotion.timings if promotion else run.baselines.timings if run.baselines else ()
    for timing in timings:
        mine = timing.arm == "candidate"
        rows.append(("ours" if mine else timing.arm, timing.median_ms, "ours" if mine else "plain"))
    if run.floor:
        rows.append(("floor", run.floor.floor_ms, "floor"))
    return sorted(rows, key=lambda row: row[1])


def _ticks(low: float, high: float) -> list[float]:
    steps = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512)
    inside = [step for step in steps if low <= step <= high]
    stride = max(1, math.ceil(len(inside) / 8))
    return sorted({*inside[::stride], 1})


def _svg(height: float, parts: list[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
