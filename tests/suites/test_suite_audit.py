"""An audit's table is read back as it was written, and applies to the texts that it was made of."""

import json

import pytest
from written_suites import line, manifest, task

from kernelskill.errors import ConfigError
from kernelskill.records import Finding, TaskOutcome
from kernelskill.suites import audit

TASKS = [task(1, 1), task(1, 2), task(1, 3)]
SUITE = manifest(TASKS).suite
LINES = [
    line(TASKS[0], TaskOutcome.UNTESTABLE, reason="stochastic: two runs\tdiffer\n(dropout)",
         findings=(Finding(code="stochastic", message="two runs differ", fatal=True),)),
    line(TASKS[1], TaskOutcome.DESCRIBED, reason=""),
    line(TASKS[2], TaskOutcome.FAILED, reason="missing dependency einops"),
]  # fmt: skip


def test_written_and_read_back(tmp_path):
    rows = [audit.row_of(item) for item in LINES]
    file = tmp_path / "audit.tsv"
    file.write_text(audit.table(rows))
    found = audit.load(SUITE, file)
    assert list(found.values()) == rows
    assert audit.reasons(found) == {"level1/1_Gate": "stochastic: two runs differ (dropout)"}
    assert audit.sizes(found)["level1/2_Gate"] == (1 << 28, 1 << 20)


def test_the_same_rows_as_json(tmp_path):
    rows = [audit.row_of(item) for item in LINES]
    file = tmp_path / "audit.json"
    file.write_text(json.dumps([row.model_dump() for row in rows]))
    assert list(audit.load(SUITE, file).values()) == rows


def test_a_row_of_another_text_does_not_apply(tmp_path):
    rows = [audit.row_of(LINES[0].model_copy(update={"hash": "0" * 64}))]
    file = tmp_path / "audit.tsv"
    file.write_text(audit.table(rows))
    assert audit.load(SUITE, file) == {}


@pytest.mark.parametrize("text", ["", "task\thash\n", "[1, 2]", "[{]", '[{"task": "a"}]'])
def test_another_file_is_refused(tmp_path, text):
    file = tmp_path / "audit.tsv"
    file.write_text(text)
    with pytest.raises(ConfigError, match="is not an audit"):
        audit.load(SUITE, file)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        audit.load(SUITE, tmp_path / "none.tsv")
