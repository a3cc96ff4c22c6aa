"""Cards, recipes, gate and evidence as one library."""

import math

import pytest
from skill_examples import KERNEL, PROGRAM, attempt_of, facts_of, program_of, write_skill

from kernelskill.errors import ProgramError, SkillError
from kernelskill.program.program import Program
from kernelskill.records import Edit
from kernelskill.skills import EvidenceStore, ExpertLibrary

FACTS = facts_of(PROGRAM, k1=KERNEL, k2={**KERNEL, "share_ratio": 0.3})


def library(tmp_path, *, store=None, **fields):
    write_skill(tmp_path / "extra", **fields)
    return ExpertLibrary(store, extra=[tmp_path / "extra"], device="machine")


def plain(program):
    return program.model_dump(mode="json")


def test_bundled_and_further_cards(tmp_path):
    found = library(tmp_path)
    assert found.card("do-it").executable
    assert len(found.cards()) == len(ExpertLibrary(None).cards()) + 1
    with pytest.raises(SkillError, match="no skill 'nothing'; known: align-vector-access"):
        found.card("nothing")


def test_a_bundled_id_cannot_be_taken(tmp_path):
    with pytest.raises(SkillError, match="already the id of"):
        library(tmp_path, id="stream-stores")


def test_propose_and_apply_go_through_json(tmp_path):
    found = library(tmp_path)
    program = plain(program_of("k1", "k2"))
    edits = found.propose("do-it", program, FACTS)
    assert [edit.site for edit in edits] == ["k1", "k2"], "the larger share first"
    after = Program.model_validate(found.apply(program, edits[0]))
    assert after.kernel("k1").schedule.unroll == 2
    assert after.kernel("k2").schedule.unroll == 1
    assert after.skills == ("do-it",)
    assert program == plain(program_of("k1", "k2"))


def test_sites_that_the_gate_refuses_are_not_proposed(tmp_path):
    found = library(tmp_path)
    program = plain(program_of("k1", "k2", "k3"))
    facts = facts_of(PROGRAM, k1={**KERNEL, "kernel_bound": "compute"}, k2=KERNEL)
    assert [edit.site for edit in found.propose("do-it", program, facts)] == ["k2"]


def test_sites_shaped_by_a_conflicting_skill_are_not_proposed(tmp_path):
    found = library(tmp_path, conflicts="[stream-stores]")
    program = program_of("k1", "k2")
    shaped = program.kernel("k1").model_copy(update={"skills": ("stream-stores",)})
    assert [edit.site for edit in found.propose("do-it", plain(program.with_kernel(shaped)), FACTS)] == ["k2"]


def test_knowledge_proposes_nothing_and_cannot_be_applied(tmp_path):
    found = library(tmp_path)
    assert found.propose("stop-at-floor", plain(program_of()), FACTS) == []
    with pytest.raises(ProgramError, match="is knowledge"):
        found.apply(plain(program_of()), Edit(skill="stop-at-floor", site="", action="stop"))


def test_a_recipe_that_breaks_costs_its_turn_not_the_run(tmp_path, caplog):
    recipe = "def propose(program, facts): return [1 / 0]\ndef apply(program, edit): return {}['gone']\n"
    found = library(tmp_path, recipe=recipe)
    assert found.propose("do-it", plain(program_of("k1")), FACTS) == []
    assert "propose failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    with pytest.raises(ProgramError, match=r"do-it: go at k1 failed in .*recipe\.py: KeyError: 'gone'"):
        found.apply(plain(program_of("k1")), Edit(skill="do-it", site="k1", action="go"))


@pytest.mark.parametrize(
    "recipe", ["import nothing_of_that_name", "def propose(): pass", "propose = apply = 3", "("]
)
def test_a_recipe_that_cannot_be_used_is_named(tmp_path, recipe):
    found = library(tmp_path, recipe=recipe)
    with pytest.raises(SkillError, match=r"do_it/recipe\.py: "):
        found.propose("do-it", plain(program_of("k1")), FACTS)


def test_what_is_no_program_is_refused(tmp_path):
    found = library(tmp_path)
    for program in (None, {}, {"graph": 3}):
        with pytest.raises(ProgramError, match="not a program"):
            found.propose("do-it", program, FACTS)


def test_rank_follows_prior_share_and_evidence(tmp_path):
    store = EvidenceStore(tmp_path / "e.sqlite")
    write_skill(tmp_path / "extra", "small", prior=0.1)
    write_skill(tmp_path / "extra", "large", prior=0.5)
    found = ExpertLibrary(store, extra=[tmp_path / "extra"], device="machine")

    def order():
        return [name for name in found.retrieve(FACTS).admitted if name in {"small", "large"}]

    assert order() == ["large", "small"]
    first = next(item for item in found.retrieve(FACTS).decisions if item.skill == "large")
    assert first.subject == "k1", "the kernel with the larger share"
    assert first.expected_speedup == pytest.approx(1 / (0.4 + 0.6 * math.exp(-0.5)))
    for index in range(4):
        found.remember(
            attempt_of(index, skill="small", speedup=(1.3, 1.35, 1.4)), FACTS, {"run": "a", "task": "t"}
        )
        found.remember(
            attempt_of(index, skill="large", speedup=(0.98, 1.0, 1.02)), FACTS, {"run": "b", "task": "t"}
        )
    assert order() == ["small", "large"]
    reason = next(item for item in found.retrieve(FACTS).decisions if item.skill == "small").reason
    assert "4 verified, 0 rejected" in reason
    assert found.estimate("small", "k1", FACTS).verified == 4


def test_what_paid_elsewhere_is_expected_no_further_than_facts_allow(tmp_path):
    """An edit that made a chain of element-wise steps three times faster, before a product that takes nearly all."""
    found = ExpertLibrary(EvidenceStore(tmp_path / "e.sqlite"), device="machine")
    chain = {
        "target": "cpu", "wrapper": "", "operators_left": 8, "count_elementwise": 8, "traffic_ratio": 9.0,
        "fusable_share_ratio": 1.0, "floor_bound": "memory", "dispatch_ms": 0.01, "floor_ms": 1.0,
    }  # fmt: skip
    product = {**chain, "count_matmul": 1, "fusable_share_ratio": 0.02, "floor_bound": "compute"}
    for index in range(12):
        attempt = attempt_of(index, skill="fuse-elementwise", site="a", speedup=(2.9, 3.0, 3.1), round=0)
        found.remember(attempt, facts_of(chain), {"run": "a", "task": "t"})

    def expected(facts):
        return next(item for item in found.retrieve(facts).decisions if item.skill == "fuse-elementwise")

    assert expected(facts_of(chain)).expected_speedup > 2.5
    assert expected(facts_of(product)).expected_speedup == pytest.approx(1 / 0.96)
    assert "12 verified, 0 rejected, all that there is to save" in expected(facts_of(product)).reason


def test_evidence_suspends_in_its_context_only(tmp_path):
    store = EvidenceStore(tmp_path / "e.sqlite")
    found = library(
        tmp_path, store=store, applies="kernel_bound != 'none'", bottlenecks="[memory-bandwidth, compute]"
    )
    for index in range(3):
        found.remember(attempt_of(index, skill="do-it", speedup=(0.7, 0.75, 0.8)), FACTS, {"run": "a"})
    facts = facts_of(PROGRAM, k1=KERNEL, k2={**KERNEL, "kernel_kind": "row", "kernel_bound": "compute"})
    by_subject = {item.subject: item for item in found.retrieve(facts).decisions if item.skill == "do-it"}
    assert not by_subject["k1"].admitted
    assert "suspended here by evidence" in by_subject["k1"].reason
    assert by_subject["k2"].admitted
    assert [edit.site for edit in found.propose("do-it", plain(program_of("k1", "k2")), facts)] == ["k2"]


def test_a_condition_that_mistakes_text_for_a_number_refuses_and_says_so(tmp_path):
    found = library(tmp_path, applies="kernel_bound == 'memory' and kernel_kind > 3")
    decisions = [item for item in found.retrieve(FACTS).decisions if item.skill == "do-it"]
    assert [item.admitted for item in decisions] == [False, False]
    assert "applies, column 44: 'map' cannot be compared with 3" in decisions[0].reason


def test_remembering_twice_is_once_and_without_a_store_nothing(tmp_path):
    store = EvidenceStore(tmp_path / "e.sqlite")
    found = library(tmp_path, store=store)
    for _ in range(2):
        found.remember(attempt_of(), FACTS, {"run": "a", "task": "t"})
    assert len(store.rows()) == 1
    ExpertLibrary(None).remember(attempt_of(), FACTS, {"run": "a"})


def test_the_library_is_a_skill_library():
    from kernelskill.protocols import SkillLibrary

    library: SkillLibrary = ExpertLibrary(None)
    assert library.retrieve(FACTS) == ExpertLibrary(None).retrieve(FACTS)
