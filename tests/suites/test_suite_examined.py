"""Audits and baselines of real tasks, from the reference's worker to the table that is written."""

import csv
from pathlib import Path

import pytest
from small_suites import DEGENERATE, GATE, task_text, write_suite
from suite_work import settings, started, worked

from kernelskill.records import TaskOutcome
from kernelskill.suites import audit
from kernelskill.suites.pool import LocalPool, Seat
from kernelskill.suites.publish import AUDIT, TABLE, publish

RANDOM = task_text("return torch.nn.functional.dropout(x, 0.5)")


@pytest.mark.long
def test_an_audit_tells_what_can_prove_nothing_and_is_read_back(tmp_path):
    suite = write_suite(
        tmp_path / "suite", {"1_Gate.py": GATE, "2_Degenerate.py": DEGENERATE, "3_Dropout.py": RANDOM}
    )
    folder = started(settings(tmp_path), suite)
    lines = {item.key: item for item in worked(folder, LocalPool([Seat(places=2)]))}
    assert lines["1_Gate"].outcome is TaskOutcome.DESCRIBED
    assert (lines["1_Gate"].moved_bytes, lines["1_Gate"].state_bytes) == (2 * 4 * 64 * 1024, 0)
    assert lines["1_Gate"].work == "elementwise"
    assert lines["2_Degenerate"].outcome is lines["3_Dropout"].outcome is TaskOutcome.UNTESTABLE
    assert "stochastic" in lines["3_Dropout"].reason
    score = publish(folder)
    assert set(score.set_aside) == {"2_Degenerate", "3_Dropout"}
    rows = audit.load(folder.manifest.suite, folder.path / AUDIT)
    assert [rows[key].set_aside for key in ("1_Gate", "2_Degenerate", "3_Dropout")] == [False, True, True]
    assert audit.sizes(rows)["1_Gate"] == (2 * 4 * 64 * 1024, 0)


@pytest.mark.long
def test_baselines_are_timed_with_their_spread(tmp_path):
    suite = Path(__file__).parent / "tasks"
    folder = started(settings(tmp_path), suite / "level1", kind="baselines")
    gate = next(item for item in worked(folder) if item.key == "1_Gate")
    assert gate.outcome is TaskOutcome.DESCRIBED
    times = gate.stock["match"]
    assert {"eager"} <= set(times.arms) <= {"eager", "compile"}
    assert all(0 < item.p10_ms <= item.median_ms <= item.p90_ms for item in times.arms.values())
    assert 0 < gate.floor_ms < times.best_ms
    publish(folder)
    with (folder.path / TABLE).open() as file:
        row = next(item for item in csv.DictReader(file) if item["task"] == "1_Gate")
    assert float(row["eager_match_ms"]) == times.arms["eager"].median_ms
    assert float(row["best_stock_ms"]) == times.best_ms
