"""Which tasks of a suite an audit sets aside: a versioned table, shipped for known suites or given by a file.

Columns, separated by tabs: task (its key), hash (first 16 digits of the sha256 of its text), set_aside (yes or no),
findings, moved_bytes, state_bytes, reason. A row of another text than the task's own does not apply.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from kernelskill.errors import ConfigError
from kernelskill.records import Record, Suite, TaskOutcome, TaskResult

COLUMNS = ("task", "hash", "set_aside", "findings", "moved_bytes", "state_bytes", "reason")
HASH_DIGITS = 16


class AuditRow(Record):
    """One task in an audit's table."""

    task: str
    hash: str
    set_aside: bool
    findings: tuple[str, ...] = ()
    """Codes: stochastic, input-independent, constant-output, powerless, too-big, overhead-bound, ..."""
    moved_bytes: int | None = None
    """Inputs and outputs of a call."""
    state_bytes: int | None = None
    reason: str = ""


def row_of(result: TaskResult) -> AuditRow:
    """What an audit's line says, for the table."""
    return AuditRow(
        task=result.key,
        hash=result.hash[:HASH_DIGITS],
        set_aside=result.outcome is TaskOutcome.UNTESTABLE,
        findings=tuple(dict.fromkeys(item.code for item in result.findings)),
        moved_bytes=result.moved_bytes,
        state_bytes=result.state_bytes,
        reason=" ".join(result.reason.split()),
    )


def table(rows: Iterable[AuditRow]) -> str:
    """The rows as text separated by tabs."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter="\t", lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            [
                row.task, row.hash, "yes" if row.set_aside else "no", ",".join(row.findings),
                _number(row.moved_bytes), _number(row.state_bytes), row.reason,
            ]
        )  # fmt: skip
    return buffer.getvalue()


def load(suite: Suite, file: Path | None) -> dict[str, AuditRow]:
    """The audit of a suite by task: from a file, else the one that is shipped for it, else nothing.

    Rows that were made of another text of their task are left out.

    Raises:
        ConfigError: the file cannot be read as such a table.
    """
    if file is not None:
        rows = _read(file.name, _text(file))
    else:
        shipped = resources.files("kernelskill.suites") / "data" / f"{suite.name}.tsv"
        rows = _read(shipped.name, shipped.read_text(encoding="utf-8")) if shipped.is_file() else []
    hashes = {task.key: task.hash[:HASH_DIGITS] for task in suite.tasks}
    return {row.task: row for row in rows if hashes.get(row.task) == row.hash[:HASH_DIGITS]}


def reasons(rows: dict[str, AuditRow]) -> dict[str, str]:
    """Task -> why it is set aside, of those that are."""
    return {key: row.reason or ", ".join(row.findings) for key, row in rows.items() if row.set_aside}


def sizes(rows: dict[str, AuditRow]) -> dict[str, tuple[int, int]]:
    """Task -> bytes moved by a call, and bytes of state."""
    return {
        key: (row.moved_bytes, row.state_bytes or 0)
        for key, row in rows.items()
        if row.moved_bytes is not None
    }


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--audit {file} cannot be read: {error}") from error


def _read(name: str, text: str) -> list[AuditRow]:
    """Rows of a table, or of a JSON list of objects with the same names."""
    try:
        if text.lstrip().startswith("["):
            return [AuditRow.model_validate(item) for item in json.loads(text)]
        return [_row(cells) for cells in _cells(name, text)]
    except ValueError as error:
        raise ConfigError(f"{name} is not an audit of a suite: {str(error).splitlines()[0]}") from error


def _cells(name: str, text: str) -> Sequence[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text), delimiter="\t")
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ConfigError(f"{name} is not an audit of a suite: its columns must be {', '.join(COLUMNS)}")
    return list(reader)


def _row(cells: dict[str, str]) -> AuditRow:
    return AuditRow(
        task=cells["task"],
        hash=cells["hash"],
        set_aside=cells["set_aside"] == "yes",
        findings=tuple(code for code in cells["findings"].split(",") if code),
        moved_bytes=int(cells["moved_bytes"]) if cells["moved_bytes"] else None,
        state_bytes=int(cells["state_bytes"]) if cells["state_bytes"] else None,
        reason=cells["reason"] or "",
    )


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
