"""First versions: composed skills, variants that differ, the stock compiler."""

import pytest
from toy_library import TASK, ToyLibrary, decision, graph, workload

from kernelskill.agents import ExpertGenerator
from kernelskill.agents.start import captured, hash_of
from kernelskill.records import Edit, Facts

FUSING = {
    "simplify-algebra": "twice",
    "online-softmax": "softmax",
    "fuse-reduction": "sum",
    "fuse-elementwise": "add",
    "channels-last": "conv",
}
ALL = tuple(decision(skill, operators_left=4) for skill in (*FUSING, "library-compile"))


def seeds(library, work, count=3):
    return ExpertGenerator(library).seeds(TASK, work, Facts(), count)


def programs(library, work, plans):
    """Hash of what each plan gives."""
    hashes = []
    for plan in plans:
        program = captured(work)
        for edit in plan.edits:
            program = library.apply(program, edit)
        hashes.append(hash_of(program))
    return hashes


def test_all_admitted_skills_are_composed_in_their_order():
    work = workload(graph("add", "sum", "softmax", "add"))
    first = seeds(ToyLibrary(ALL, FUSING), work)[0]
    assert [edit.skill for edit in first.edits] == [
        "online-softmax", "fuse-reduction", "fuse-elementwise", "fuse-elementwise",
    ]  # fmt: skip
    assert first.base_id == ""
    assert first.evidence_facts == {"operators_left": 4}
    assert "online-softmax, fuse-reduction, fuse-elementwise" in first.reason


def test_every_plan_gives_another_program():
    library = ToyLibrary(ALL, FUSING)
    work = workload(graph("twice", "conv", "add"))
    plans = seeds(library, work, count=4)
    assert len(plans) == len(set(programs(library, work, plans))) == 3


def test_where_no_skill_has_a_site_there_is_no_plan():
    assert seeds(ToyLibrary(ALL, FUSING), workload(graph("mm"))) == ()


def test_channels_last_is_the_second_guess_where_there_are_convolutions():
    plans = seeds(ToyLibrary(ALL, FUSING), workload(graph("twice", "conv", "add")))
    assert [any(edit.skill == "channels-last" for edit in plan.edits) for plan in plans] == [
        False,
        True,
        False,
    ]


def test_without_convolutions_the_second_guess_leaves_algebra_out():
    plans = seeds(ToyLibrary(ALL, FUSING), workload(graph("twice", "add")))
    assert [edit.skill for edit in plans[1].edits] == ["fuse-elementwise"]
    assert len(plans) == 2


def test_a_variant_with_the_same_program_is_no_second_plan():
    plans = seeds(ToyLibrary(ALL, FUSING), workload(graph("add", "sum")))
    assert [plan.skill for plan in plans] == ["fuse-elementwise"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_more_plans_than_asked_for_and_the_best_guess_first(count):
    plans = seeds(ToyLibrary(ALL, FUSING), workload(graph("twice", "conv", "add")), count)
    assert len(plans) == count
    assert plans[0].edits[0].skill == "simplify-algebra"


def test_a_skill_that_the_gate_refuses_is_left_out_with_its_reason():
    reason = "count_elementwise is unknown"
    others = [item for item in ALL if item.skill != "fuse-elementwise"]
    refused = (*others, decision("fuse-elementwise", admitted=False, reason=reason))
    first = seeds(ToyLibrary(refused, FUSING), workload(graph("sum", "add")))[0]
    assert [edit.skill for edit in first.edits] == ["fuse-reduction"]
    assert f"fuse-elementwise left out: {reason}" in first.reason


def test_a_refused_skill_without_a_site_is_not_worth_a_word():
    refused = (
        decision("fuse-reduction"),
        decision("fuse-elementwise", admitted=False, reason="nothing there"),
    )
    plans = seeds(ToyLibrary(refused, FUSING), workload(graph("sum")))
    assert "left out" not in plans[0].reason


def test_without_a_captured_graph_only_the_compiler_is_left_even_if_the_gate_knows_too_little():
    unknown = (*ALL[:-1], decision("library-compile", admitted=False, reason="operators_left is unknown"))
    plans = seeds(ToyLibrary(unknown, FUSING), workload(None, "data-dependent control flow"))
    assert [plan.skill for plan in plans] == ["library-compile"]
    assert "data-dependent control flow" in plans[0].reason


def test_nothing_admitted_gives_no_plan():
    assert seeds(ToyLibrary((), FUSING), workload(graph("add"))) == ()


def test_an_edit_that_changes_nothing_is_not_repeated_for_ever():
    class Idle(ToyLibrary):
        def propose(self, skill, program, facts):
            edits = super().propose(skill, program, facts)
            return [Edit(skill=skill, site="n0", action="nothing"), *edits]

    plans = seeds(Idle((decision("fuse-elementwise"),), FUSING), workload(graph("add", "add")))
    assert [edit.action for edit in plans[0].edits] == ["fuse", "fuse"]


def test_an_edit_that_does_not_fit_is_passed_over():
    class Hopeful(ToyLibrary):
        def propose(self, skill, program, facts):
            return [Edit(skill=skill, site="gone", action="fuse"), *super().propose(skill, program, facts)]

    plans = seeds(Hopeful((decision("fuse-elementwise"),), FUSING), workload(graph("add")))
    assert [edit.site for edit in plans[0].edits] == ["n0"]
