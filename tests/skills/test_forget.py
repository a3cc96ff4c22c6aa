"""Evidence is taken in from other stores, and let go by device, versions or age."""

import sqlite3

import pytest
from skill_examples import KERNEL, PROGRAM, attempt_of, facts_of

from kernelskill.errors import StoreError
from kernelskill.skills import EvidenceStore
from kernelskill.skills.evidence import APPLICATION, MIGRATIONS
from kernelskill.skills.experience import evidence_of
from kernelskill.skills.remembered import remembered

FACTS = facts_of(PROGRAM, k1=KERNEL)


def row(index, run="r", device="machine", **changes):
    found = evidence_of(attempt_of(index), FACTS, device, {"run": run, "task": f"t{index}"})
    return found.model_copy(update=changes)


@pytest.fixture
def store(tmp_path):
    opened = EvidenceStore(tmp_path / "evidence.sqlite")
    for item in (
        row(0, torch="2.6.0", driver="550.1"), row(1, torch="2.6.1", driver="580.2"),
        row(2, torch="2.13.0", driver="580.2"), row(3, device="other", torch="2.13.0", date="2020-01-01T00:00:00+00:00"),
    ):  # fmt: skip
        opened.add(item)
    return opened


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"torch": "2.6*"}, {2, 3}),
        ({"torch": "2.6.0"}, {1, 2, 3}),
        ({"torch": "2.6"}, {0, 1, 2, 3}),
        ({"driver": "580*"}, {0, 3}),
        ({"driver": "580*", "torch": "2.6*"}, {0, 2, 3}),
        ({"device": "other"}, {0, 1, 2}),
        ({"before": "2021-01-01"}, {0, 1, 2}),
        ({"skill": "stream-stores"}, set()),
        ({"run": "*"}, set()),
        ({"task": "t[0]"}, {0, 1, 2, 3}),
    ],
)
def test_rows_go_by_what_they_were_made_with(store, choice, left):
    count = store.forget(**choice)
    assert {item.attempt for item in store.rows()} == left
    assert count == 4 - len(left)


def test_forgetting_needs_a_choice(store):
    with pytest.raises(StoreError, match="not by nothing"):
        store.forget()
    with pytest.raises(StoreError, match=r"not by \['colour'\]"):
        store.forget(colour="red")
    assert len(store.rows()) == 4


def test_stores_merge_and_the_other_stays_as_it_is(store, tmp_path):
    mine = EvidenceStore(tmp_path / "mine.sqlite")
    mine.add(row(0))
    before = (store.path.read_bytes(), len(store.rows()))
    assert mine.merge(store.path) == 3
    assert mine.merge(store.path) == 0
    assert (store.path.read_bytes(), len(store.rows())) == before
    with pytest.raises(StoreError, match="does not exist"):
        mine.merge(tmp_path / "nowhere.sqlite")
    text = tmp_path / "text.sqlite"
    text.write_text("no database at all " * 100)
    with pytest.raises(StoreError, match="nothing was changed"):
        mine.merge(text)


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path):
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as connection:
        for statement in MIGRATIONS[0].split(";"):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO evidence VALUES ('r', 1, 't', 's', '', 'a', '{}', 1, 'd', '', '', '', '', 'match', 'high', '', "
            "'base', 1.1, 1.2, 1.3, 'passed', '2.6', '0.1', '2026-01-01')"
        )
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    (found,) = EvidenceStore(path).rows()
    assert (found.run, found.driver, found.speedup.value) == ("r", "", 1.2)
    newer = EvidenceStore(tmp_path / "new.sqlite")
    assert newer.merge(path) == 1


def test_what_is_remembered_reads_per_skill_and_context(store):
    here, other = remembered(store.rows())
    assert {here.context.device, other.context.device} == {"machine", "other"}
    assert (here.tries, here.verified, here.rejected, here.tasks) == (3, 3, 0, 3)
    assert here.mean_speedup == pytest.approx(1.2)
    assert here.torch == ("2.13.0", "2.6.0", "2.6.1")
    assert "stream-stores" in str(here)
    assert "1.200x" in str(here)
