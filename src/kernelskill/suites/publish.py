"""What a suite run leaves to read: score.json, results.csv, suite.html; written anew each time from its lines."""

from __future__ import annotations

from pathlib import Path

from kernelskill.errors import RunError
from kernelskill.journal import write_atomically
from kernelskill.records import SuiteScore
from kernelskill.report.suite_page import render_suite
from kernelskill.report.suite_table import csv_text
from kernelskill.suites import audit
from kernelskill.suites.folder import SuiteFolder
from kernelskill.suites.score import score

SCORE, TABLE, PAGE, AUDIT = "score.json", "results.csv", "suite.html", "audit.tsv"


def publish(folder: SuiteFolder, audit_file: Path | None = None) -> SuiteScore:
    """Score a run by what is finished of it, and write it down.

    Args:
        folder: of the run.
        audit_file: table of tasks to set aside; default: the one shipped for the suite.

    Raises:
        RunError: nothing is finished.
        ConfigError: the table cannot be read.
    """
    results = folder.results()
    if not results:
        raise RunError(f"no task of suite run {folder.manifest.id} is finished yet")
    rows = audit.load(folder.manifest.suite, audit_file)
    found = score(folder.manifest, results, folder.sessions(), audit.reasons(rows))
    write_atomically(folder.path / SCORE, found.model_dump_json(indent=2) + "\n")
    write_atomically(folder.path / TABLE, csv_text(results, found.set_aside))
    write_atomically(folder.path / PAGE, render_suite(folder.manifest, results, found, folder.sessions()))
    if folder.manifest.kind == "audit":
        write_atomically(folder.path / AUDIT, audit.table(_in_order(folder)))
    return found


def _in_order(folder: SuiteFolder) -> list[audit.AuditRow]:
    found = {item.key: audit.row_of(item) for item in folder.results()}
    return [found[task.key] for task in folder.manifest.suite.tasks if task.key in found]
