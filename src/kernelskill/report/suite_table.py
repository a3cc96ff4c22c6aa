"""One row a task, for the table of values separated by commas and for the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from kernelskill.records import Answer, Interval, StockTimes, TaskOutcome, TaskResult
from kernelskill.records.suite import closest

COLUMNS = (
    "task", "level", "number", "work", "outcome", "set_aside", "over_eager", "over_eager_low", "over_eager_high",
    "over_best_stock", "over_best_stock_low", "over_best_stock_high", "time_ms", "eager_ms", "best_stock_ms",
    "best_stock_arm", "floor_ms", "floor_share_ratio", "status", "tier", "labels", "skills", "sample", "answers",
    "attempts", "second_verdict", "wall_s", "reason",
)  # fmt: skip
SPREAD = ("_ms", "_p10_ms", "_p90_ms")
"""Of each stock arm at each precision: median, and the times that a tenth of the calls were below and above."""


@dataclass(frozen=True)
class Row:
    """What is shown of a task."""

    result: TaskResult
    answer: Answer | None
    eager: Interval | None
    """Over eager, of a verified candidate that is not a baseline."""
    stock: Interval | None
    """Over the stock arm that it beats by least."""
    times: StockTimes | None
    set_aside: str

    @property
    def eager_ms(self) -> float | None:
        """Eager, milliseconds."""
        arm = self.times.arms.get("eager") if self.times else None
        return arm.median_ms if arm else None

    @property
    def best_ms(self) -> float | None:
        """Fastest stock arm, milliseconds."""
        return self.times.best_ms if self.times else None

    @property
    def final_ms(self) -> float | None:
        """What the user of the result gets, milliseconds."""
        faster = self.result.outcome is TaskOutcome.FASTER and self.answer is not None
        return self.answer.time_ms if faster and self.answer else self.best_ms

    @property
    def floor_share_ratio(self) -> float | None:
        """Floor over what the user gets, 0..1."""
        if not self.final_ms or not self.result.floor_ms:
            return None
        return min(1.0, self.result.floor_ms / self.final_ms)


def rows_of(results: Sequence[TaskResult], set_aside: dict[str, str]) -> list[Row]:
    """Rows in the order of level and number."""
    ordered = sorted(
        results,
        key=lambda item: (item.level or 0, item.number if item.number is not None else 1 << 30, item.key),
    )
    return [_row(item, set_aside.get(item.key, "")) for item in ordered]


def csv_text(results: Sequence[TaskResult], set_aside: dict[str, str]) -> str:
    """The rows as text separated by commas; an empty cell is a number that there is not."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    arms = arms_of(results)
    writer.writerow([*COLUMNS, *(f"{arm}_{precision}{end}" for precision, arm in arms for end in SPREAD)])
    for row in rows_of(results, set_aside):
        cells = [*_cells(row), *(value for arm in arms for value in _stock(row, *arm))]
        writer.writerow(["" if value is None else value for value in cells])
    return buffer.getvalue()


def arms_of(results: Sequence[TaskResult]) -> list[tuple[str, str]]:
    """Precision and stock arm, for each that was timed anywhere."""
    return list(
        dict.fromkeys(
            (name, arm) for item in results for name, times in item.stock.items() for arm in times.arms
        )
    )


def _row(result: TaskResult, set_aside: str) -> Row:
    answer = result.answer
    shown = answer is not None and answer.status == "passed" and not answer.is_baseline
    return Row(
        result=result,
        answer=answer,
        eager=answer.over.get("eager") if answer and shown else None,
        stock=closest(answer) if answer and shown else None,
        times=next(iter(result.stock.values()), None),
        set_aside=set_aside,
    )


def _cells(row: Row) -> list[object]:
    result, answer = row.result, row.answer
    return [
        result.key, result.level, result.number, result.work, result.outcome.value, "yes" if row.set_aside else "no",
        *_numbers(row.eager), *_numbers(row.stock), answer.time_ms if answer else None, row.eager_ms, row.best_ms,
        row.times.best_arm if row.times else None, result.floor_ms, _short(row.floor_share_ratio),
        answer.status if answer else None, answer.tier if answer else None,
        " ".join(answer.labels.kinds) if answer else None, " ".join(answer.skills) if answer else None,
        answer.sample if answer else None, len(result.answers), result.attempts,
        answer.second.status if answer and answer.second else None, result.wall_s, _one_line(result.reason),
    ]  # fmt: skip


def _stock(row: Row, precision: str, arm: str) -> tuple[float | None, ...]:
    times = row.result.stock.get(precision)
    time = times.arms.get(arm) if times else None
    return (time.median_ms, time.p10_ms, time.p90_ms) if time else (None, None, None)


def _numbers(value: Interval | None) -> list[float | None]:
    return [_short(item) for item in (value.value, value.low, value.high)] if value else [None, None, None]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _one_line(text: str) -> str:
    return " ".join(text.split())
