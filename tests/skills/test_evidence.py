"""The evidence store on real files, shared by real processes."""

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from skill_examples import KERNEL, PROGRAM, attempt_of, facts_of

from kernelskill.errors import StoreError
from kernelskill.records import Edit, Status
from kernelskill.skills import Context, EvidenceStore
from kernelskill.skills.experience import evidence_of

FACTS = facts_of(PROGRAM, k1=KERNEL)


def evidence(index=3, run="run-1", **changes):
    return evidence_of(attempt_of(index, **changes), FACTS, "machine", {"run": run, "task": "t"})


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def store(tmp_path):
    return EvidenceStore(tmp_path / "deep" / "evidence.sqlite")


def test_a_row_comes_back_as_it_went_in(store):
    row = evidence()
    assert store.add(row)
    assert store.rows() == (row,)
    assert row.context == Context(device="machine", kernel_kind="map", bound="memory", op_class="reduction")
    assert (row.subject, row.action, row.parameters) == ("k1", "set", {"nontemporal": True})
    assert (row.headroom, row.bottleneck, row.tier, row.shapes) == (
        "high",
        "memory-bandwidth",
        "match",
        "4096x1",
    )
    assert (row.compared_to, row.speedup.value) == ("base", 1.2)
    assert row.torch
    assert row.program
    assert row.date


def test_a_run_and_attempt_is_one_row_and_the_first_stays(store):
    assert store.add(evidence())
    assert not store.add(evidence(speedup=(2, 2, 2)))
    assert store.add(evidence(run="run-2"))
    assert [row.speedup.value for row in store.rows()] == [1.2, 1.2]


def test_failures_are_rows_without_a_speedup(store):
    store.add(evidence(status=Status.WRONG_VALUES))
    (row,) = store.rows("stream-stores")
    assert row.rejected
    assert not row.verified
    assert row.speedup is None
    assert store.rows("other") == ()


def test_first_versions_count_over_eager_and_shared_credit_counts_for_nobody():
    attempt = attempt_of(0, skill="fuse-elementwise", site="add", round=0)
    row = evidence_of(attempt, FACTS, "machine", {"run": "r"})
    assert (row.compared_to, row.subject, row.verified) == ("eager", "", True)
    other = Edit(skill="remove-dead-code", site="x", action="drop")
    plan = attempt.plan.model_copy(update={"edits": (*attempt.plan.edits, other)})
    shared = evidence_of(attempt.model_copy(update={"plan": plan}), FACTS, "machine", {"run": "r"})
    assert not shared.verified
    assert shared.parameters == [{"nontemporal": True}, {}]


def test_duplicates_add_nothing_and_a_context_must_name_its_run():
    unjudged = attempt_of().model_copy(update={"evaluation": None})
    assert evidence_of(unjudged, FACTS, "machine", {"run": "r"}) is None
    with pytest.raises(StoreError, match="id of its run"):
        evidence_of(attempt_of(), FACTS, "machine", {})


def test_summary_shrinks_towards_the_rows(store):
    context = evidence().context
    before = store.summary("stream-stores", context, 0.0)
    store.add(evidence())
    after = store.summary("stream-stores", context, 0.0)
    assert before.mean == 0.0
    assert 0 < after.mean < 0.1823
    assert after.verified == 1


def test_export_and_merge_are_lossless_and_idempotent(store, tmp_path):
    rows = [evidence(0), evidence(1), evidence(2), evidence(7, status=Status.TIMEOUT)]
    for row in rows:
        store.add(row)
    lines = tmp_path / "rows.jsonl"
    assert store.export(lines) == 4
    other = EvidenceStore(tmp_path / "other.sqlite")
    other.add(rows[2])
    assert other.read_export(lines) == 3
    assert other.read_export(lines) == 0
    assert set(row.model_dump_json() for row in other.rows()) == set(
        row.model_dump_json() for row in store.rows()
    )


def test_a_bad_line_imports_nothing(store, tmp_path):
    store.add(evidence(0))
    lines = tmp_path / "rows.jsonl"
    store.export(lines)
    lines.write_text(lines.read_text() + '{"run": "x"}\n')
    other = EvidenceStore(tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match=r"rows.jsonl, line 2: \w+: Field required"):
        other.read_export(lines)
    assert other.rows() == ()
    with pytest.raises(StoreError, match="cannot be read"):
        other.read_export(tmp_path / "nowhere")


def test_files_that_are_not_ours_are_refused_untouched(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("this is no database, but it is somebody's only copy" * 100)
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    for path, words in {text: "not a database", foreign: "another program"}.items():
        before = digest(path)
        with pytest.raises(StoreError, match=words) as error:
            EvidenceStore(path)
        assert str(path) in str(error.value)
        assert digest(path) == before


def test_a_newer_store_is_refused_untouched(store):
    store.add(evidence())
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = digest(store.path)
    with pytest.raises(StoreError, match="has version 99, this program knows up to 2: update kernelskill"):
        EvidenceStore(store.path)
    assert digest(store.path) == before


def test_a_damaged_store_is_refused_untouched(store):
    for index in range(200):
        store.add(evidence(index))
    damaged = bytearray(store.path.read_bytes())
    damaged[4096 : len(damaged) // 2] = b"\xa5" * (len(damaged) // 2 - 4096)
    store.path.write_bytes(damaged)
    before = digest(store.path)
    with pytest.raises(StoreError, match=r"damaged|malformed"):
        EvidenceStore(store.path)
    assert digest(store.path) == before


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder cannot be made"):
        EvidenceStore(tmp_path / "file" / "evidence.sqlite")
    with pytest.raises(StoreError, match="cannot be used"):
        EvidenceStore(tmp_path)


def test_several_processes_create_and_write_the_same_store(tmp_path):
    path = tmp_path / "shared.sqlite"
    script = (
        "import sys; sys.path.insert(0, sys.argv[3])\n"
        "from pathlib import Path; from test_evidence import evidence; from kernelskill.skills import EvidenceStore\n"
        "store = EvidenceStore(Path(sys.argv[1]))\n"
        "for index in range(20): store.add(evidence(index, run=sys.argv[2])); store.add(evidence(index, run='same'))\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), f"run-{number}", str(Path(__file__).parent)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    assert len(EvidenceStore(path).rows()) == 80
