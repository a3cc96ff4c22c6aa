"""The evidence store: one SQLite file, one row per judged attempt, shared by several processes.

The store never repairs, moves or deletes a file. One that it cannot read, or that a newer version wrote, is refused as
it is. A connection lives for one operation, so that nothing is held between them and processes may fork.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from kernelskill.errors import StoreError
from kernelskill.scratch import prefix
from kernelskill.skills.experience import Context, Evidence
from kernelskill.skills.ranking import Estimate, estimate

APPLICATION = 0x4B534B4C
"""`PRAGMA application_id` of our files: "KSKL"."""
WAIT_S = 30.0
"""How long an operation waits for another process's transaction."""
NEWEST = 1000
"""Rows of one skill that ranking looks at, newest first."""

MIGRATIONS = (
    """
    CREATE TABLE evidence (
        run TEXT NOT NULL, attempt INTEGER NOT NULL, task TEXT NOT NULL,
        skill TEXT NOT NULL, subject TEXT NOT NULL, action TEXT NOT NULL, parameters TEXT NOT NULL,
        sole INTEGER NOT NULL,
        device TEXT NOT NULL, kernel_kind TEXT NOT NULL, bound TEXT NOT NULL, op_class TEXT NOT NULL,
        shapes TEXT NOT NULL, tier TEXT NOT NULL, headroom TEXT NOT NULL, bottleneck TEXT NOT NULL,
        compared_to TEXT NOT NULL, speedup_low REAL, speedup REAL, speedup_high REAL,
        verdict TEXT NOT NULL, torch TEXT NOT NULL, program TEXT NOT NULL, date TEXT NOT NULL,
        PRIMARY KEY (run, attempt)
    );
    CREATE INDEX evidence_by_skill ON evidence (skill, date);
    """,
    "ALTER TABLE evidence ADD COLUMN driver TEXT NOT NULL DEFAULT ''",
)
"""Statements that lead from version k to k + 1 (`PRAGMA user_version`). Only ever appended to."""

_CONTEXT = ("device", "kernel_kind", "bound", "op_class")
_PLAIN = (
    "run", "attempt", "task", "skill", "subject", "action", "shapes", "tier", "headroom", "bottleneck", "compared_to",
    "verdict", "torch", "driver", "program", "date",
)  # fmt: skip
FILTERS = ("run", "task", "skill", "device", "torch", "driver")
"""Columns that rows can be forgotten by."""
_COLUMNS = (*_PLAIN, *_CONTEXT, "parameters", "sole", "speedup_low", "speedup", "speedup_high")


class EvidenceStore:
    """Long-term evidence in the file at `path`, made if it does not exist.

    Raises:
        StoreError: the file is no evidence store, is damaged, is newer than this program, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"evidence store {path}: its folder cannot be made: {error}") from error
        with self._connection() as connection:
            self._check(connection)
            if _version(connection) < len(MIGRATIONS):
                self._migrate(connection)
                with suppress(
                    sqlite3.OperationalError
                ):  # busy: another process does it, and it stays in the file
                    connection.execute("PRAGMA journal_mode = WAL")

    def add(self, row: Evidence) -> bool:
        """Add one row; False if that run's attempt is already there (the first row stays)."""
        return self._insert([row]) == 1

    def rows(self, skill: str | None = None, limit: int | None = None) -> tuple[Evidence, ...]:
        """Rows of one skill, or all, newest first."""
        where, values = ("WHERE skill = ?", (skill,)) if skill is not None else ("", ())
        statement = (
            f"SELECT {', '.join(_COLUMNS)} FROM evidence {where} "
            "ORDER BY date DESC, run DESC, attempt DESC LIMIT ?"
        )
        with self._connection() as connection:
            found = connection.execute(statement, (*values, -1 if limit is None else limit)).fetchall()
        return tuple(self._row(dict(zip(_COLUMNS, values, strict=True))) for values in found)

    def summary(self, skill: str, context: Context, prior_log_speedup: float = 0.0) -> Estimate:
        """What the evidence says about a skill in a context (see `ranking`)."""
        return estimate(prior_log_speedup, self.rows(skill, NEWEST), context)

    def export(self, path: Path) -> int:
        """Write all rows as JSON lines, oldest first; returns how many."""
        rows = self.rows()[::-1]
        path.write_text("".join(f"{row.model_dump_json()}\n" for row in rows), encoding="utf-8")
        return len(rows)

    def merge(self, path: Path) -> int:
        """Add the rows of another store; returns how many were new. All or nothing, and the other file stays as it is.

        Raises:
            StoreError: there is no such file, or it is no store that this program can read.
        """
        if not path.is_file():
            raise StoreError(f"evidence store {path} does not exist")
        with tempfile.TemporaryDirectory(prefix=prefix("evidence")) as folder:
            copy = Path(folder) / "evidence.sqlite"  # an older version is brought up to date there
            _copied(path, copy)
            return self._insert(EvidenceStore(copy).rows())

    def forget(self, *, before: str = "", **equal: str) -> int:
        """Remove the rows that fit all that is given; returns how many.

        Args:
            before: ISO date; rows that are older.
            equal: column -> value, of `FILTERS`. A trailing `*` fits all values that begin so (torch="2.6*").

        Raises:
            StoreError: nothing is given, which would be everything, or a column cannot be chosen by.
        """
        unknown = set(equal) - set(FILTERS)
        if unknown or not (equal or before):
            raise StoreError(
                f"forget by some of {', '.join(FILTERS)} or by date, not by {sorted(unknown) or 'nothing'}"
            )
        conditions = [f"{name} GLOB ?" for name in equal] + ["date < ?"] * bool(before)
        values = [*(_pattern(value) for value in equal.values()), *([before] if before else [])]
        with self._connection() as connection, _transaction(connection):
            return connection.execute(
                f"DELETE FROM evidence WHERE {' AND '.join(conditions)}", values
            ).rowcount

    def read_export(self, path: Path) -> int:
        """Add the rows of a file that `export` wrote; returns how many were new. All or nothing.

        Raises:
            StoreError: the file cannot be read, or a line is not a row.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from error
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(Evidence.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"]) or "line"
                raise StoreError(f"{path}, line {number}: {where}: {first['msg']}") from error
        return self._insert(rows)

    def _insert(self, rows: Sequence[Evidence]) -> int:
        names, marks = ", ".join(_COLUMNS), ", ".join(f":{name}" for name in _COLUMNS)
        statement = f"INSERT INTO evidence ({names}) VALUES ({marks}) ON CONFLICT (run, attempt) DO NOTHING"
        with self._connection() as connection, _transaction(connection):
            return sum(connection.execute(statement, _values(row)).rowcount for row in rows)

    def _row(self, values: dict[str, object]) -> Evidence:
        low, value, high = (values.pop(name) for name in ("speedup_low", "speedup", "speedup_high"))
        context = {name: values.pop(name) for name in _CONTEXT}
        interval = None if value is None else {"low": low, "value": value, "high": high}
        try:
            values["parameters"] = json.loads(str(values["parameters"]))
            values["sole"] = bool(values["sole"])
            return Evidence.model_validate({**values, "context": context, "speedup": interval})
        except (ValidationError, ValueError) as error:
            raise StoreError(
                f"evidence store {self.path}: row {values['run']}/{values['attempt']} is not valid: {error}"
            ) from error

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse what is damaged, foreign or newer, before anything is written."""
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StoreError(f"evidence store {self.path} is damaged ({verdict}); {_ADVICE}")
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise StoreError(
                f"evidence store {self.path} has version {version}, this program knows up to {len(MIGRATIONS)}: "
                f"update kernelskill, or give another file; nothing was changed"
            )
        # Tables before owner: a process that creates the file at this moment writes both at once.
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        if owner != APPLICATION and (owner or version or tables):
            raise StoreError(
                f"{self.path} is a database of another program; give another file for the evidence"
            )

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with _transaction(connection):
            # Read again inside the transaction: another process may have migrated while this one waited.
            for statements in MIGRATIONS[_version(connection) :]:
                for statement in statements.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)) as connection:
                yield connection
        except sqlite3.OperationalError as error:
            raise StoreError(f"evidence store {self.path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"evidence store {self.path} cannot be read ({error}); {_ADVICE}") from error


_ADVICE = "nothing was changed: move the file away or restore a copy, then import what was exported"


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One writer at a time, from the beginning; rolled back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:  # whatever it is, nothing of it may stay in the file
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _copied(source: Path, target: Path) -> None:
    """A consistent copy of a database that other processes may be writing to."""
    try:
        with (
            closing(
                sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT_S)
            ) as opened,
            closing(sqlite3.connect(target)) as copy,
        ):
            opened.backup(copy)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"evidence store {source} cannot be read ({error}); nothing was changed") from error


def _pattern(value: str) -> str:
    """A GLOB pattern that fits the value itself; only a `*` at its end is one."""
    stem = value.removesuffix("*")
    plain = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in stem)
    return plain + "*" * (stem != value)


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _values(row: Evidence) -> dict[str, object]:
    """Column -> value of one row."""
    fields = row.model_dump(mode="json")
    low, value, high = (row.speedup.low, row.speedup.value, row.speedup.high) if row.speedup else (None,) * 3
    return {
        **{name: fields[name] for name in _PLAIN},
        **fields["context"],
        "parameters": json.dumps(row.parameters, sort_keys=True, allow_nan=False),
        "sole": int(row.sole),
        "speedup_low": low,
        "speedup": value,
        "speedup_high": high,
    }
