"""Which settings evidence proves, where a skill begins with them, and what they stand in for."""

import pytest
from skill_examples import KERNEL, PROGRAM, facts_of, program_of, write_skill

from kernelskill.records import Edit, Interval, Status
from kernelskill.skills import Context, Evidence, EvidenceStore, ExpertLibrary
from kernelskill.skills.proven import fitting, proven

HERE = Context(device="machine", kernel_kind="map", bound="memory", op_class="reduction")
ELSEWHERE = HERE.model_copy(update={"kernel_kind": "row"})
RECIPE = """
from kernelskill.records import Edit


def propose(program, facts):
    return [
        Edit(skill="do-it", site=kernel.name, action="unroll", parameters={"unroll": 2}, space={"unroll": (2, 4, 8)},
             summary=f"{kernel.name}: unroll 1 -> 2")
        for kernel in program.kernels
    ]


def apply(program, edit):
    kernel = program.kernel(edit.site)
    schedule = kernel.schedule.model_copy(update=edit.parameters)
    return program.with_kernel(kernel.model_copy(update={"schedule": schedule})).with_skill("do-it")
"""
UNMEASURED = {"kernel_kind": "map", "expected_bound": "memory", "schedule_nontemporal": False}


def row(attempt, speedup, value=4, context=HERE, spread=0.01, **fields):
    interval = Interval(low=speedup * (1 - spread), value=speedup, high=speedup * (1 + spread))
    kept = {"parameters": {"unroll": value}, "verdict": Status.PASSED, "compared_to": "base", **fields}
    return Evidence(
        run="r", attempt=attempt, skill="do-it", action="unroll", context=context, speedup=interval, **kept
    )


def edit(*space, value=2):
    return Edit(
        skill="do-it", site="k1", action="unroll", parameters={"unroll": value}, space={"unroll": space},
        summary="k1: unroll 1 -> 2",
    )  # fmt: skip


def library(tmp_path, *rows, **fields):
    write_skill(tmp_path / "extra", recipe=RECIPE, **fields)
    store = EvidenceStore(tmp_path / "e.sqlite")
    for item in rows:
        store.add(item)
    return ExpertLibrary(store, extra=[tmp_path / "extra"], device="machine")


def plain(program):
    return program.model_dump(mode="json")


def test_what_paid_twice_is_proven_and_the_best_comes_first():
    rows = [row(0, 1.3), row(1, 1.25), row(2, 1.5, value=8), row(3, 1.6, value=8), row(4, 1.4, value=2)]
    found = proven(rows, HERE)
    assert [item.parameters for item in found] == [{"unroll": 8}, {"unroll": 4}]
    assert 0 < found[1].log_speedup < found[0].log_speedup < 0.47, "shrunk towards none"


@pytest.mark.parametrize(
    "rows",
    [
        [row(0, 1.3)],
        [row(0, 1.3), row(1, 1.3, context=ELSEWHERE)],
        [row(0, 1.02), row(1, 1.03)],
        [row(0, 1.5), row(1, 0.7)],
        [row(0, 1.3, spread=0.9), row(1, 1.3, spread=0.9)],
        [row(index, 3.0, compared_to="eager") for index in range(4)],
        [row(index, 3.0, sole=False) for index in range(4)],
        [row(index, 3.0, parameters=[{"unroll": 4}, {"unroll": 8}]) for index in range(4)],
    ],
    ids=["once", "elsewhere", "small", "at odds", "noisy", "first versions", "shared", "several values"],
)
def test_less_is_no_proof(rows):
    assert proven(rows, HERE) == []


def test_one_value_on_several_kernels_counts():
    rows = [row(index, 1.3, parameters=[{"unroll": 4}, {"unroll": 4}]) for index in range(2)]
    assert [item.parameters for item in proven(rows, HERE)] == [{"unroll": 4}]


def test_a_setting_fits_only_where_the_space_holds_it():
    settings = proven([row(0, 1.5, value=8), row(1, 1.5, value=8), row(2, 1.3), row(3, 1.3)], HERE)
    assert fitting(edit(2, 4, 8), settings)[0].parameters == {"unroll": 8}
    assert fitting(edit(2, 4), settings)[0].summary == "k1: unroll 1 -> 4"
    assert fitting(edit(2), settings) is None
    assert fitting(edit(2, value=8), settings)[0].parameters == {"unroll": 8}
    assert fitting(edit(2, 4, 8).model_copy(update={"action": "other"}), settings) is None


def test_a_proposal_begins_with_what_paid_in_its_context(tmp_path):
    found = library(tmp_path, row(0, 1.3), row(1, 1.3))
    facts = facts_of(PROGRAM, k1=KERNEL, k2={**KERNEL, "kernel_kind": "row"})
    edits = found.propose("do-it", plain(program_of("k1", "k2")), facts)
    assert {item.site: item.parameters["unroll"] for item in edits} == {"k1": 4, "k2": 2}


def test_evidence_stands_in_for_facts_that_nobody_has_measured_yet(tmp_path):
    found = library(tmp_path, row(0, 1.3), row(1, 1.3))
    facts = facts_of(PROGRAM, k1=UNMEASURED, k2={**UNMEASURED, "kernel_kind": "row"})
    program = plain(program_of("k1", "k2"))
    assert found.propose("do-it", program, facts) == [], "the gate waits for a measured bound"
    assert [(item.site, item.parameters) for item in found.proven(program, facts)] == [("k1", {"unroll": 4})]


def test_without_evidence_nothing_is_proven(tmp_path):
    facts, program = facts_of(PROGRAM, k1=UNMEASURED), plain(program_of("k1"))
    assert library(tmp_path).proven(program, facts) == []
    assert ExpertLibrary(None).proven(program, facts) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"applies": "kernel_bound == 'memory' and in_cache"},
        {"structures": "[row]"},
        {"kind": "structural"},
    ],
)
def test_what_is_known_may_speak_against_it(tmp_path, fields):
    found = library(tmp_path, row(0, 1.3), row(1, 1.3), **fields)
    assert found.proven(plain(program_of("k1")), facts_of(PROGRAM, k1=UNMEASURED)) == []


def test_a_skill_that_is_suspended_there_is_not_proven(tmp_path):
    losses = [row(index, 0.7, value=2) for index in range(2, 7)]
    found = library(tmp_path, row(0, 1.3), row(1, 1.3), *losses)
    assert found.proven(plain(program_of("k1")), facts_of(PROGRAM, k1=UNMEASURED)) == []
