"""What is tried next, and that nothing is tried twice."""

import pytest
from toy_library import ToyLibrary, attempt, candidate, decision, fused, plan, retrieval, schedule

from kernelskill.agents import ExpertPlanner
from kernelskill.memory import RunMemory
from kernelskill.program.program import Program
from kernelskill.records import Candidate, Fact, Facts, Outcome, Status
from kernelskill.search import Tuner

FIELDS = {
    "block-inner": ("block", (64, 128, 512)),
    "widen-vectors": ("vector_bits", (512,)),
    "tune-threads": ("threads", (1,)),
}


def planned(base, memory=(), decisions=(), facts=(), library=None):
    planner = ExpertPlanner(library or ToyLibrary(fields=FIELDS), Tuner())
    return planner.plan(base, Facts(facts=facts), retrieval(*decisions), RunMemory(memory))


def seed(program=None):
    made = candidate("c0", program or fused("k0"))
    return attempt(0, plan(""), made, over_eager=2.0), made


def test_the_best_ranked_decision_wins_not_the_best_ranked_skill():
    _, base = seed(fused("k0", "k1"))
    first = decision("tune-threads", "k1", expected=1.4)
    chosen = planned(base, decisions=(first, decision("block-inner", "k0"), decision("tune-threads", "k0")))
    assert (chosen.skill, chosen.edits[0].site) == ("tune-threads", "k1")
    assert chosen.expected_speedup == 1.4
    assert chosen.base_id == "c0"


def test_the_plan_carries_the_measured_facts_that_admitted_it():
    _, base = seed()
    facts = (
        Fact(name="share_ratio", value=0.6, origin="measured", subject="k0"),
        Fact(name="rows", value=8, origin="parsed", subject="k0"),
    )
    admitted = decision("tune-threads", "k0", reason="share_ratio 0.6", share_ratio=0.6, rows=8)
    chosen = planned(base, decisions=(admitted,), facts=facts)
    assert chosen.evidence_facts == {"share_ratio": 0.6}
    assert "share_ratio 0.6" in chosen.reason
    only_parsed = planned(base, decisions=(decision("tune-threads", "k0", rows=8),), facts=facts)
    assert only_parsed.evidence_facts == {"rows": 8}


def test_refused_decisions_give_no_plan():
    _, base = seed()
    assert planned(base, decisions=(decision("tune-threads", "k0", admitted=False),)) is None
    assert planned(base) is None


@pytest.mark.parametrize(
    ("base", "admitted", "why"),
    [
        (seed()[1], False, "no skill is admitted"),
        (seed(fused("k1"))[1], True, "no admitted skill finds a place in it"),
        (Candidate(id="c0", source="by hand"), True, "no recipe fits it"),
    ],
)
def test_it_says_why_it_has_no_plan(base, admitted, why):
    planner = ExpertPlanner(ToyLibrary(fields=FIELDS), Tuner())
    gate = retrieval(decision("tune-threads", "k0", admitted=admitted))
    assert planner.plan(base, Facts(), gate, RunMemory()) is None
    assert why in planner.declined().reason


def test_bases_without_an_editable_program_give_no_plan():
    admitted = (decision("tune-threads", "k0"),)
    person = Candidate(id="c0", source="written by hand", author="person")
    assert planned(person, decisions=admitted) is None
    compiled = candidate("c0", Program(graph=fused("k0").graph, wrapper="compile"))
    assert planned(compiled, decisions=admitted) is None


def test_one_skill_on_several_kernels_is_one_plan():
    _, base = seed(fused("k0", "k1", "k2"))
    admitted = tuple(decision("widen-vectors", name) for name in ("k1", "k0"))
    chosen = planned(base, decisions=admitted)
    assert [edit.site for edit in chosen.edits] == ["k1", "k0"]
    assert "on 2 kernels" in chosen.reason


def test_skills_about_the_whole_program_go_alone():
    _, base = seed(fused("k0", "k1"))
    chosen = planned(base, decisions=(decision("widen-vectors"),))
    assert [edit.site for edit in chosen.edits] == ["k0"]


def test_what_failed_together_is_tried_apart():
    first, base = seed(fused("k0", "k1"))
    admitted = tuple(decision("widen-vectors", name) for name in ("k0", "k1"))
    both = [schedule(name, "vector_bits", 512, skill="widen-vectors") for name in ("k0", "k1")]
    history = [
        first,
        attempt(1, plan("c0", *both), candidate("c1", fused("k0", "k1", vector_bits=512), "c0")),
    ]
    chosen = planned(base, history, admitted)
    assert [edit.site for edit in chosen.edits] == ["k0"]
    history.append(attempt(2, chosen, candidate("c2", fused("k0"), "c0"), Status.CRASHED))
    assert [edit.site for edit in planned(base, history, admitted).edits] == ["k1"]


def test_every_skill_has_its_turn_before_another_value_of_one():
    first, base = seed()
    admitted = (decision("block-inner", "k0"), decision("tune-threads", "k0"))
    history, keys = [first], []
    while (chosen := planned(base, history, admitted)) is not None:
        keys.append(chosen.edits[0].parameters)
        assert len(keys) < 20
        index = len(history)
        made = base.model_copy(update={"id": f"c{index}", "parent_id": "c0", "program_hash": f"{index}"})
        history.append(attempt(index, chosen, made, over_base=0.9))
    assert keys[:2] == [{"block": 64}, {"threads": 1}]
    assert keys[2:] == [{"block": 128}]
    assert len({str(item) for item in keys}) == len(keys)


def test_a_plan_is_never_made_twice_whatever_comes_of_it():
    for status in (Status.PASSED, Status.CRASHED, Status.WRONG_VALUES, Status.TIMEOUT):
        first, base = seed(fused("k0", "k1"))
        admitted = tuple(decision(skill, name) for skill in FIELDS for name in ("k0", "k1"))
        history, seen = [first], set()
        while (chosen := planned(base, history, admitted)) is not None:
            key = tuple(edit.key for edit in chosen.edits)
            assert key not in seen
            seen.add(key)
            index = len(history)
            made = base.model_copy(update={"id": f"c{index}", "parent_id": "c0", "program_hash": f"{index}"})
            history.append(attempt(index, chosen, made, status, over_base=0.95))


def test_a_program_that_was_judged_is_not_planned_again():
    """Setting 512 on this base gives the very program that another edit led to before."""
    first, base = seed(fused("k0", block=256))
    other = schedule("k0", "vector_bits", 512, skill="another-skill")
    history = [
        first,
        attempt(1, plan("c0", other), candidate("c1", fused("k0", block=256, vector_bits=512), "c0")),
    ]
    assert planned(base, history, (decision("widen-vectors", "k0"),)) is None


def test_what_gave_nothing_on_an_ancestor_has_a_second_chance_after_all_else():
    first, _ = seed(fused("k0"))
    lame = schedule("k0", "vector_bits", 512, skill="widen-vectors")
    gain = schedule("k0", "threads", 1, skill="tune-threads")
    base = candidate("c2", fused("k0", threads=1), "c0")
    history = [
        first,
        attempt(1, plan("c0", lame), candidate("c1", fused("k0", vector_bits=512), "c0"), over_base=1.0),
        attempt(2, plan("c0", gain), base, outcome=Outcome.NEW_BASE, over_base=1.2),
    ]
    admitted = (decision("widen-vectors", "k0"), decision("block-inner", "k0"))
    chosen = planned(base, history, admitted)
    assert chosen.skill == "block-inner"
    again = planned(base, history, admitted[:1])
    assert again.edits[0].key == lame.key
    assert "second chance" in again.reason


def test_what_failed_on_an_ancestor_has_none():
    first, _ = seed(fused("k0"))
    bad = schedule("k0", "vector_bits", 512, skill="widen-vectors")
    base = candidate("c2", fused("k0", threads=1), "c0")
    gain = schedule("k0", "threads", 1, skill="tune-threads")
    history = [
        first,
        attempt(1, plan("c0", bad), candidate("c1", fused("k0", vector_bits=512), "c0"), Status.CRASHED),
        attempt(2, plan("c0", gain), base, outcome=Outcome.NEW_BASE, over_base=1.2),
    ]
    assert planned(base, history, (decision("widen-vectors", "k0"),)) is None


def test_the_climb_goes_on_from_the_value_that_became_the_base():
    first, _ = seed(fused("k0"))
    gain = schedule("k0", "block", 512, skill="block-inner")
    base = candidate("c1", fused("k0", block=512), "c0")
    history = [first, attempt(1, plan("c0", gain), base, outcome=Outcome.NEW_BASE, over_base=1.2)]
    library = ToyLibrary(fields={"block-inner": ("block", (64, 128, 512, 1024))})
    chosen = planned(base, history, (decision("block-inner", "k0"),), library=library)
    assert chosen.edits[0].parameters["block"] != 512
    assert "another value" in chosen.reason


def test_an_edit_that_does_not_fit_is_passed_over():
    class Hopeful(ToyLibrary):
        def propose(self, skill, program, facts):
            gone = schedule("gone", "threads", 1, skill=skill)
            return [gone, *super().propose(skill, program, facts)]

    _, base = seed()
    chosen = planned(base, decisions=(decision("tune-threads"),), library=Hopeful(fields=FIELDS))
    assert chosen.edits[0].site == "k0"
