"""What ncu printed (`--csv --page raw`, into a log) -> launches with their counters, and what went wrong.

The table has a row of names, a row of units, and a row for each launch. Lines of ncu's own begin with "==". What does
not look like that is refused rather than guessed at; a cell that holds no number is a counter that was not counted.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kernelskill.profiling.counters import COUNTERS, Kind

FIRST, KERNEL = "ID", "Kernel Name"
SCALES: dict[Kind, dict[str, float]] = {
    "percent": {"%": 1.0},
    "time": {
        "nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3, "second": 1e6, "s": 1e6,
    },
    "bytes": {
        "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
        "byte/block": 1.0, "Kbyte/block": 1e3, "Mbyte/block": 1e6,
    },
    "number": {},
}  # fmt: skip
"""Kind of counter -> unit as ncu writes it -> factor to microseconds or bytes. Numbers are taken in any unit without a
prefix, as `--print-units base` gives them."""
_PREFIXED = re.compile(r"^[KMGT](?=[a-z])")
_NUMBER = re.compile(r"^[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d*)?([eE][+-]?\d+)?$")
_NOTHING = re.compile(r"^(\(!\)\s*)?(n/a|nan|-nan|[+-]?inf|)$", re.I)
_ABSENT = re.compile(r"^(\(!\)\s*)?(n/a|)$", re.I)
_UNKNOWN = re.compile(
    r"(?:Failed to find metric|Unknown metric|Metric)\s*:?\s+(?:regex:\^)?\"?([A-Za-z]\w*__\w+(?:\\?\.\w+)*)"
)
_REFUSED = ("ERR_NVGPUCTRPERM", "does not have permission to access NVIDIA GPU Performance Counters")

FaultKind = Literal["permission", "unknown-metric", "nothing-counted", "unreadable"]


class TableError(ValueError):
    """ncu's table is not what it should be; the text says where."""


@dataclass(frozen=True)
class Launch:
    """One launch that was profiled."""

    kernel: str
    values: Mapping[str, float]
    """Counter -> value: percent, microseconds, bytes or a plain number."""


@dataclass(frozen=True)
class Fault:
    """Why there are no counters."""

    kind: FaultKind
    reason: str
    metrics: tuple[str, ...] = ()
    """Metrics that this ncu or GPU does not know."""


@dataclass(frozen=True)
class Counted:
    """What a log holds."""

    launches: tuple[Launch, ...] = ()
    fault: Fault | None = None
    """Why nothing was counted; None if something was."""
    uncounted: tuple[str, ...] = field(default=())
    """Metrics that were asked for and are marked as not available (or missing) in every launch."""


def read_log(text: str, asked: Sequence[str]) -> Counted:
    """Read all that ncu printed about one run.

    Args:
        text: the log; may hold lines of other programs before the table.
        asked: metrics that were asked for.
    """
    said = [line.strip() for line in text.splitlines() if line.startswith("==")]
    errors = [line for line in said if line.startswith("==ERROR==")]
    if any(word in line for line in said for word in _REFUSED):
        return Counted(fault=Fault("permission", _plain(next(line for line in said if _is_refusal(line)))))
    unknown = tuple(dict.fromkeys(name for line in errors for name in _unknown(line, asked)))
    try:
        rows = tuple(_rows(text))
    except TableError as error:
        return Counted(fault=Fault("unreadable", f"ncu's table cannot be read: {error}"))
    if not rows:
        if unknown:
            return Counted(fault=Fault("unknown-metric", f"ncu knows no {', '.join(unknown)}", unknown))
        why = _plain(errors[0]) if errors else _plain(said[-1]) if said else "ncu printed nothing"
        return Counted(fault=Fault("nothing-counted", why))
    try:
        launches = tuple(Launch(kernel, _values(cells)) for kernel, cells in rows)
    except TableError as error:
        return Counted(fault=Fault("unreadable", f"ncu's table cannot be read: {error}"))
    seen = {name for _, cells in rows for name, (_, cell) in cells.items() if not _ABSENT.match(cell.strip())}
    return Counted(launches, None, tuple(name for name in asked if name not in seen))


def function_name(kernel: str) -> str:
    """A kernel's name without return type, template arguments and parameters: "void f<4>(int)" is "f"."""
    text = kernel.removeprefix("void ").strip()
    return re.split(r"[<(]", text, maxsplit=1)[0].strip() or kernel


Cells = Mapping[str, tuple[str, str]]
"""Metric -> unit and cell, as text."""


def _rows(text: str) -> Iterator[tuple[str, Cells]]:
    """Kernel and cells of each launch. A second table (another process) begins with names of its own."""
    names: list[str] | None = None
    units: list[str] | None = None
    lines = (line for line in text.splitlines() if line.startswith('"'))
    for row in _cells(lines):
        if row and row[0] == FIRST:
            if KERNEL not in row:
                raise TableError(f"no column {KERNEL!r}")
            if len(set(row)) != len(row):
                raise TableError("a column stands there twice")
            names, units = row, None
        elif names is None:
            continue
        elif len(row) != len(names):
            raise TableError(f"{len(row)} cells under {len(names)} names")
        elif units is None:
            if row[0] or row[names.index(KERNEL)]:
                raise TableError("no row of units below the names")
            units = row
        else:
            cells = dict(zip(names, zip(units, row, strict=True), strict=True))
            yield cells[KERNEL][1], cells


def _cells(lines: Iterator[str]) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines, strict=True)
    except csv.Error as error:
        raise TableError(str(error)) from error


def _values(cells: Cells) -> dict[str, float]:
    """Counters of one launch; the first of a counter's names that has a value counts."""
    found: dict[str, float] = {}
    for counter in COUNTERS:
        for metric in counter.metrics:
            value = _value(metric, counter.kind, *cells[metric]) if metric in cells else None
            if value is not None:
                found[counter.name] = value
                break
    return found


def _value(metric: str, kind: Kind, unit: str, cell: str) -> float | None:
    text = cell.strip()
    if _NOTHING.match(text):
        return None
    if not _NUMBER.match(text):
        raise TableError(f"{metric}: {cell!r} is no number")
    value = float(text.replace(",", ""))
    scales = SCALES[kind]
    if scales and unit not in scales:
        raise TableError(f"{metric}: {unit!r} is no unit of {kind} known here")
    if not scales and _PREFIXED.match(unit):
        raise TableError(f"{metric}: {unit!r} is not a base unit")
    if value < 0 or not math.isfinite(value):
        raise TableError(f"{metric}: {cell!r} is out of range")
    return value * scales.get(unit, 1.0)


def _unknown(line: str, asked: Sequence[str]) -> Iterator[str]:
    """Metrics that were asked for and that an error line names as unknown."""
    match = _UNKNOWN.search(line)
    if match is None:
        return
    name = match[1].replace("\\", "")
    yield from (metric for metric in asked if metric == name or metric.startswith(f"{name}."))


def _is_refusal(line: str) -> bool:
    return any(word in line for word in _REFUSED)


def _plain(line: str) -> str:
    return re.sub(r"^==\w+==\s*", "", line)
