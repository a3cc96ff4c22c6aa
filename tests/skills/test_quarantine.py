"""A win that no skill explains is written down, tried with care, and approved by other tasks only."""

import pytest
from skill_examples import KERNEL, PROGRAM, attempt_of, facts_of, write_skill

from kernelskill.records import Status
from kernelskill.skills import EvidenceStore, ExpertLibrary, lint
from kernelskill.skills.card import read_card

FACTS = facts_of(PROGRAM, k1=KERNEL)


def attempt(index=3, skill="", source="def better(): ...", **changes):
    found = attempt_of(index, skill=skill, **changes)
    candidate = found.candidate.model_copy(update={"source": source})
    plan = found.plan.model_copy(update={"reason": "keep x in registers: no second read"})
    return found.model_copy(update={"candidate": candidate, "plan": plan})


@pytest.fixture
def store(tmp_path):
    return EvidenceStore(tmp_path / "data" / "evidence.sqlite")


def library(store, extra=()):
    return ExpertLibrary(store, extra=extra, device="machine")


def distilled(store):
    return [card for card in library(store).cards() if card.id.startswith("distilled-")]


def remember(store, found, task="t0", run="r0"):
    library(store).remember(found, FACTS, {"run": run, "task": task})


def test_an_unexplained_win_becomes_a_quarantined_card_that_passes_lint(store):
    remember(store, attempt())
    (card,) = distilled(store)
    assert (card.status, card.kind, card.origin, card.subject) == ("quarantined", "knowledge", "t0", "kernel")
    assert card.applies == "kernel_kind == 'map' and kernel_bound == 'memory'"
    assert (card.path.parent / "candidate.py").read_text() == "def better(): ..."
    assert "keep x in registers" in card.section("Mechanism")
    assert lint([card.path.parent], examples=True) == []


@pytest.mark.parametrize(
    "found",
    [
        attempt(skill="stream-stores"),
        attempt(speedup=(0.98, 1.02, 1.06)),
        attempt(status=Status.WRONG_VALUES),
        attempt(round=0),
        attempt(source=""),
    ],
    ids=["explained", "within noise", "wrong", "first version", "nothing to keep"],
)
def test_nothing_else_is_distilled(store, found):
    remember(store, found)
    assert distilled(store) == []


def test_the_same_win_is_written_once(store):
    remember(store, attempt())
    remember(store, attempt(index=9))
    assert len(distilled(store)) == 1


def test_one_distilled_skill_at_a_time_is_on_probation_without_a_prior(store):
    for index in range(3):
        remember(store, attempt(index, source=f"def better{index}(): ..."))
    retrieval = library(store).retrieve(FACTS)
    found = [item for item in retrieval.decisions if item.skill.startswith("distilled-")]
    assert [item.admitted for item in sorted(found, key=lambda item: not item.admitted)] == [
        True,
        False,
        False,
    ]
    admitted = next(item for item in found if item.admitted)
    assert admitted.expected_speedup == pytest.approx(1.0)
    assert sum("one distilled skill at a time" in item.reason for item in found) == 2


def test_wins_on_other_tasks_approve_it_and_those_on_its_own_do_not(store):
    remember(store, attempt())
    (card,) = distilled(store)
    for index, task in enumerate(("t0", "t0", "t1")):
        remember(store, attempt_of(index + 10, skill=card.id), task=task)
    assert distilled(store)[0].status == "quarantined", "one other task is not enough"
    remember(store, attempt_of(20, skill=card.id), task="t2")
    assert distilled(store)[0].status == "approved"
    assert read_card(card.path).prior is not None
    expected = next(item for item in library(store).retrieve(FACTS).decisions if item.skill == card.id)
    assert expected.expected_speedup > 1.05


def test_losses_elsewhere_keep_it_in_quarantine(store):
    remember(store, attempt())
    (card,) = distilled(store)
    for index, (task, speedup) in enumerate(
        [("t3", (0.7, 0.8, 0.9)), ("t1", (1.1, 1.2, 1.3)), ("t2", (1.1, 1.2, 1.3))]
    ):
        remember(store, attempt_of(index + 10, skill=card.id, speedup=speedup), task=task)
    assert distilled(store)[0].status == "quarantined"


def test_without_evidence_nothing_is_distilled(tmp_path):
    write_skill(tmp_path / "extra")
    ExpertLibrary(None, extra=[tmp_path / "extra"]).remember(attempt(), FACTS, {"run": "r"})
    assert not list(tmp_path.glob("**/distilled*"))
