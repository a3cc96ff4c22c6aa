"""What a run remembers: what must not be tried again, where, and why."""

import pytest

from kernelskill.memory import RunMemory, ancestors, chain
from kernelskill.records import Attempt, Candidate, Edit, Evaluation, Outcome, Plan, Status


def edit(name, **parameters):
    return Edit(skill="skill", site=name, action="do", parameters=parameters)


def attempt(name, base, *edits, status=Status.PASSED, outcome=Outcome.NOT_FASTER, program=""):
    index = int(name[1:])
    made = Candidate(id=name, parent_id=base, source=name, program_hash=program or f"program of {name}")
    judged = None
    if outcome is not Outcome.DUPLICATE:
        judged = Evaluation(candidate_id=name, source_hash=made.source_hash, stage="screen", status=status)
    return Attempt(
        index=index,
        round=index,
        plan=Plan(base_id=base, edits=edits, skill="skill", reason="", evidence_facts={"step": index}),
        candidate=made,
        evaluation=judged,
        outcome=outcome if status is Status.PASSED else Outcome.FAILED,
        duplicate_of="c0" if judged is None else "",
    )


A, B, C, D = (edit(name) for name in "abcd")
FAILED = {"status": Status.WRONG_VALUES}
NEW = {"outcome": Outcome.NEW_BASE}
SEED = {"outcome": Outcome.SEED}


def test_an_edit_tried_on_a_base_is_refused_there_whatever_came_of_it():
    for result in (FAILED, NEW, {}, {"outcome": Outcome.DUPLICATE}):
        memory = RunMemory([attempt("c0", "", B, **SEED), attempt("c1", "c0", A, **result)])
        assert "tried on c0 as c1" in memory.tried("c0", A)
        assert memory.tried("c0", C) == ""


def test_other_parameters_are_another_edit():
    memory = RunMemory([attempt("c0", "", B, **SEED), attempt("c1", "c0", edit("a", block=64), **FAILED)])
    assert memory.tried("c0", edit("a", block=64))
    assert not memory.tried("c0", edit("a", block=128))


def test_a_failure_holds_below_the_base_it_failed_on():
    memory = RunMemory(
        [
            attempt("c0", "", B, **SEED),
            attempt("c1", "c0", A, **FAILED),
            attempt("c2", "c0", C, **NEW),
            attempt("c3", "c2", D, **NEW),
        ]
    )
    assert memory.tried("c3", A) == "failed (wrong-values) on c0, an ancestor, as c1"


def test_a_failure_says_nothing_about_another_branch():
    memory = RunMemory(
        [attempt("c0", "", B, **SEED), attempt("c1", "", C, **SEED), attempt("c2", "c0", A, **FAILED)]
    )
    assert memory.tried("c0", A)
    assert memory.tried("c1", A) == ""


def test_no_gain_is_given_one_second_chance_in_a_lineage():
    first = [
        attempt("c0", "", B, **SEED),
        attempt("c1", "c0", A),
        attempt("c2", "c0", C, **NEW),
    ]
    assert RunMemory(first).tried("c2", A) == ""
    second = [*first, attempt("c3", "c2", A), attempt("c4", "c2", D, **NEW)]
    assert RunMemory(second).tried("c4", A) == "not faster 2 times in this lineage (c1, c3)"


def test_a_gain_on_an_ancestor_is_no_reason_against_it_on_another_branch():
    memory = RunMemory(
        [attempt("c0", "", B, **SEED), attempt("c1", "c0", A, **NEW), attempt("c2", "c0", C, **NEW)]
    )
    assert memory.tried("c2", A) == ""
    assert memory.tried("c1", A) == "part of c1 already"


def test_every_edit_of_a_first_version_is_part_of_its_descendants():
    memory = RunMemory([attempt("c0", "", A, B, C, **SEED), attempt("c1", "c0", D, **NEW)])
    assert [memory.tried("c1", item) for item in (A, B, C)] == ["part of c0 already"] * 3


def test_of_edits_that_failed_together_none_is_refused_alone():
    memory = RunMemory([attempt("c0", "", C, **SEED), attempt("c1", "c0", A, B, **FAILED)])
    assert memory.tried("c0", A) == memory.tried("c0", B) == ""


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_edit_without_which_it_passes_is_to_blame(order):
    both = [attempt("c0", "", A, B, C, **FAILED), attempt("c1", "", A, C, **SEED)]
    memory = RunMemory([both[place] for place in order])
    assert memory.tried("c1", B) == "c0 failed (wrong-values) with it, c1 passed without it"
    assert memory.tried("c1", A) == "part of c1 already"


def test_two_edits_fewer_blame_nobody():
    memory = RunMemory([attempt("c0", "", A, B, C, **FAILED), attempt("c1", "", A, **SEED)])
    assert memory.tried("c1", B) == memory.tried("c1", C) == ""


def test_a_verdict_about_the_task_is_not_held_against_an_edit_below():
    memory = RunMemory(
        [
            attempt("c0", "", B, **SEED),
            attempt("c1", "c0", A, status=Status.UNTESTABLE),
            attempt("c2", "c0", C, **NEW),
        ]
    )
    assert memory.tried("c2", A) == ""


def test_a_program_is_known_by_the_first_candidate_that_was_judged():
    memory = RunMemory(
        [
            attempt("c0", "", B, program="same", **SEED),
            attempt("c1", "", C, program="same", outcome=Outcome.DUPLICATE),
            attempt("c2", "", D, program="failed", **FAILED),
        ]
    )
    assert (memory.known("same"), memory.known("failed"), memory.known("new")) == ("c0", "c2", "")


def test_a_duplicate_that_was_not_judged_makes_no_program_known():
    assert RunMemory([attempt("c1", "", A, program="p", outcome=Outcome.DUPLICATE)]).known("p") == ""


def test_a_resumed_run_answers_as_the_killed_one_did():
    history = [
        attempt("c0", "", A, B, C, **FAILED),
        attempt("c1", "", A, B, **SEED),
        attempt("c2", "c1", D),
        attempt("c3", "c1", edit("e"), **NEW),
        attempt("c4", "c3", D),
        attempt("c5", "c3", edit("f"), **FAILED),
    ]
    stored = [Attempt.model_validate_json(item.model_dump_json()) for item in history]
    live = RunMemory()
    for place, item in enumerate(history):
        live.add(item)
        resumed = RunMemory(stored[: place + 1])
        for base in ("", "c0", "c1", "c3"):
            for asked in (A, B, C, D, edit("e"), edit("f")):
                assert live.tried(base, asked) == resumed.tried(base, asked)
    assert live.attempts() == RunMemory(stored).attempts()


def test_lineage_goes_from_the_first_version_to_the_candidate():
    history = [
        attempt("c0", "", A, **SEED),
        attempt("c1", "c0", B, **NEW),
        attempt("c2", "c1", C),
        attempt("c3", "c1", D, **NEW),
    ]
    assert ancestors(history, "c3") == ("c3", "c1", "c0")
    steps = chain(iter(history), "c3")
    assert [item.candidate.id for item in steps] == ["c0", "c1", "c3"]
    assert [item.plan.evidence_facts for item in steps] == [{"step": 0}, {"step": 1}, {"step": 3}]
    assert chain(history, "nobody") == ()
