"""The planner's answer is checked in code: admitted skills only, predictions that can be compared, nothing twice."""

import json
from dataclasses import replace

import pytest
from scripted_model import SPEC, scene

from kernelskill.agents.llm import ModelPlanner, sections
from kernelskill.agents.llm.conversation import UnusableAnswers
from kernelskill.errors import BudgetError
from kernelskill.records import (
    Attempt,
    Candidate,
    Evaluation,
    Fact,
    Facts,
    GateDecision,
    Labels,
    Outcome,
    Retrieval,
    Status,
    Timing,
)

BASE = Candidate(id="c000", source="class ModelNew: pass\n", skills=("free-design",))
FACTS = Facts(
    facts=(
        Fact(name="base_ms", value=1.0, origin="measured", unit="ms"),
        Fact(name="time_us", value=800.0, origin="measured", unit="us", subject="rows"),
        Fact(name="passes", value=3, origin="judged", subject="rows"),
    )
)


def decision(skill, subject="", admitted=True):
    return GateDecision(
        skill=skill, subject=subject, admitted=admitted, reason="as measured", facts={"passes": 3}
    )


RETRIEVAL = Retrieval(
    headroom="high", bottlenecks=("latency", "thread-scaling"),
    decisions=(decision("unroll-accumulate", "rows"), decision("tune-threads", "rows"), decision("split-rows", admitted=False)),
)  # fmt: skip


def answer(**changed):
    return json.dumps(
        {
            "skill": "unroll-accumulate", "subject": "rows", "bottleneck": "latency, 800 us of 1 ms",
            "refuted": {"name": "memory-bandwidth", "why": "far from the ceiling"},
            "steps": ["four accumulators in the sum"], "risk": "rounding", "expected_speedup": 1.3,
            "expects": [{"fact": "time_us", "direction": "down", "subject": "rows"}, {"fact": "passes", "direction": "same", "subject": "rows"}],
            **changed,
        }
    )  # fmt: skip


def planned(here, retrieval=RETRIEVAL):
    return ModelPlanner(here).plan(BASE, FACTS, retrieval, here.memory)


def test_a_plan_carries_what_it_rests_on_and_predicts():
    plan = planned(scene(answer()))
    assert (plan.base_id, plan.skill, plan.expected_speedup) == ("c000", "unroll-accumulate", 1.3)
    assert plan.evidence_facts == {"passes": 3}
    assert plan.intent.refuted == "memory-bandwidth: far from the ceiling"
    assert [(item.fact, item.direction, item.before) for item in plan.intent.expects] == [
        ("time_us", "down", 800.0), ("passes", "same", 3.0),
    ]  # fmt: skip
    assert plan.intent.author == "test:scripted"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"skill": "split-rows"}, "not admitted here. Admitted: unroll-accumulate, tune-threads"),
        ({"skill": "make-it-fast"}, "not admitted here"),
        ({"skill": "stop-at-floor"}, "not admitted here"),
        ({"steps": []}, "no steps"),
        ({"refuted": None}, "refutes no bottleneck"),
        ({"expects": []}, "needs 2 predictions"),
        ({"expects": [{"fact": "luck", "direction": "up"}] * 2}, "no fact 'luck'"),
        ({"speedup": 3.7}, "speedup: Extra inputs"),
        ({"expected_speedup": -1}, "greater than 0"),
    ],
)
def test_what_breaks_a_rule_is_told_and_asked_again(changed, said):
    here = scene(answer(**changed), answer())
    assert planned(here).skill == "unroll-accumulate"
    assert said in here.model.calls[1][2][-1].text


def test_twenty_answers_without_json_end_the_turn_after_three():
    here = scene(*["Let me think about it."] * 20)
    with pytest.raises(UnusableAnswers, match="no JSON object"):
        planned(here)
    assert len(here.model.calls) == 3


def test_stopping_is_an_answer():
    here = scene('{"stop": "0.98 of the\\nfloor"}')
    planner = ModelPlanner(here)
    assert planner.plan(BASE, FACTS, RETRIEVAL, here.memory) is None
    assert planner.declined().reason.endswith("proposes nothing further: 0.98 of the floor")


def test_without_an_admitted_skill_nobody_is_asked():
    here = scene()
    refused = RETRIEVAL.model_copy(update={"decisions": (decision("split-rows", admitted=False),)})
    assert planned(here, refused) is None
    assert here.model.calls == []


def on_reference(*skills):
    found = RETRIEVAL.model_copy(update={"decisions": tuple(decision(skill, "addmm") for skill in skills)})
    return lambda: found


def test_what_no_recipe_does_stays_open_when_printed_kernels_have_hidden_its_place():
    """A mean after a product lies within a kernel; that it commutes with the product is known of the reference only."""
    here = scene(answer(skill="collapse-linear-fold", subject=""))
    planner = ModelPlanner(here, on_reference("collapse-linear-fold", "fuse-elementwise", "tune-threads"))
    plan = planner.plan(BASE, FACTS, RETRIEVAL, here.memory)
    assert plan.skill == "collapse-linear-fold"
    assert "on the reference: as measured" in plan.reason
    instructions = here.model.calls[0][2][0].text
    assert "collapse-linear-fold" in instructions
    assert "fuse-elementwise" not in instructions, "its recipe was the expert's, who had his turn"


def test_what_is_open_on_the_reference_ranks_by_what_it_is_expected_to_give():
    gains = {"collapse-linear-fold": 12.0, "unroll-accumulate": 1.1, "tune-threads": 1.0}
    graded = [
        item.model_copy(update={"expected_speedup": gains.get(item.skill)}) for item in RETRIEVAL.decisions
    ]
    more = decision("collapse-linear-fold", "addmm").model_copy(update={"expected_speedup": 12.0})
    here = scene(answer())
    graph = RETRIEVAL.model_copy(update={"decisions": (more,)})
    ModelPlanner(here, lambda: graph).plan(
        BASE, FACTS, RETRIEVAL.model_copy(update={"decisions": tuple(graded)}), here.memory
    )
    told = here.model.calls[0][2][1].text
    places = [
        told.index(f"## {skill}:") for skill in ("collapse-linear-fold", "unroll-accumulate", "tune-threads")
    ]
    assert places == sorted(places)
    assert "split-rows" in told.partition("# Refused by the gate")[2]


def test_the_same_idea_in_other_words_of_the_same_letters_is_refused_on_the_base():
    here = scene(answer())
    plan = planned(here)
    failed = Evaluation(candidate_id="c001", source_hash="", stage="screen", status=Status.WRONG_VALUES)
    here.memory.add(
        Attempt(
            index=0, round=1, plan=plan, candidate=Candidate(id="c001", parent_id="c000", source="x"),
            evaluation=failed, outcome=Outcome.FAILED,
        )
    )  # fmt: skip
    here.model.turns = [answer(steps=["Four accumulators, in the sum."]), answer(steps=["one thread fewer"])]
    assert planned(here).intent.steps == ("one thread fewer",)
    assert "tried on c000 as c001: failed (wrong-values)" in here.model.calls[-1][2][-1].text


def test_a_spent_budget_ends_the_turn():
    with pytest.raises(BudgetError):
        planned(scene(BudgetError("spent")))


def test_the_prompt_has_the_facts_with_their_origin_the_skills_and_the_base():
    here = scene(answer())
    planned(here)
    question = here.model.calls[0][2][1].text
    for said in (
        "rows, measured: time_us=800 us", "rows, judged: passes=3", "## unroll-accumulate", "admitted for rows: as measured",
        BASE.source.strip(), "latency > thread-scaling", str(tuple(SPEC.shape)),
    ):  # fmt: skip
        assert said in question
    assert "split-rows" not in here.model.calls[0][2][0].text


def test_a_run_without_a_memory_shows_neither_attempts_nor_cards():
    """What the memories are worth is measured by leaving them out."""
    here = scene(answer())
    failed = Evaluation(candidate_id="c001", source_hash="", stage="screen", status=Status.WRONG_VALUES)
    attempt = Attempt(
        index=0, round=1, plan=planned(scene(answer())), outcome=Outcome.FAILED, evaluation=failed,
        candidate=Candidate(id="c001", parent_id="c000", source="x"),
    )  # fmt: skip
    here.memory.add(attempt)
    here.model.turns = [answer(steps=["another"])] * 2
    planned(here)
    bare = replace(here, forgets=True, unread=True)
    planned(bare)
    full, less = (call[2][1].text for call in here.model.calls)
    assert "# Tried so far" in full
    assert "## unroll-accumulate" in full
    assert "# Tried so far" not in less
    assert "## unroll-accumulate" not in less
    taught, bare_rules = (call[2][0].text for call in here.model.calls)
    assert "unroll-accumulate" in bare_rules
    assert "What pays on a CPU" in taught
    assert "What pays on a CPU" not in bare_rules, "it is what earlier runs taught"
    assert "a gate admitted" not in bare_rules, "there is none"
    for told in ("# Refused by the gate", "# Headroom and bottlenecks"):
        assert told in full
        assert told not in less, "there is no gate"
    for told in ("is not proposed again", "what was tried"):
        assert told in taught
        assert told not in bare_rules, "what was tried is not shown"


def test_refusals_that_differ_in_place_and_measure_only_are_told_once():
    """A recurrence of 12 steps has 24 products: one skill's refusals would fill the section."""
    refused = [
        decision("register-tiling", f"addmm_{number}", admitted=False).model_copy(
            update={"reason": f"fails: share_ratio >= 0.3 (share_ratio=0.0{number} measured)"}
        )
        for number in range(1, 9)
    ]
    refused += [decision("direct-convolution", name, admitted=False) for name in ("addmm_1", "bmm")]
    refused += [decision("single-pass-scan", admitted=False)]
    told = sections.refusals_section(RETRIEVAL.model_copy(update={"decisions": tuple(refused)})).text
    assert told.splitlines() == [
        "register-tiling for addmm_1 ... addmm_8 (8 alike): fails: share_ratio >= 0.3 (share_ratio=0.01 measured)",
        "direct-convolution for addmm_1 and bmm: as measured",
        "single-pass-scan: as measured",
    ]


def test_kernels_that_differ_in_numbers_only_are_told_once_to_whoever_plans():
    """Whoever writes gets the whole file, as it has to give it back."""
    kernels = [
        f"// gate_{number}: fuse-elementwise\nvoid gate_{number}(const float* x_{number}) {{\n  a();\n  b();\n}}"
        for number in range(1, 5)
    ]
    base = BASE.model_copy(
        update={"source": "\n\n".join(["import torch", *kernels, "def forward():\n    pass"])}
    )
    brief = sections.source_section(base, "The base", repeats=False).text
    assert brief.count("a();") == 1
    assert "// gate_4: fuse-elementwise\n[... as above, with other numbers]" in brief
    assert "def forward():\n    pass" in brief
    assert sections.source_section(base, "The base").text.count("a();") == 4


def test_that_the_machine_was_busy_is_told_beside_the_speedup():
    attempt = Attempt(
        index=0, round=1, plan=planned(scene(answer())), outcome=Outcome.NOT_FASTER,
        candidate=Candidate(id="c001", parent_id="c000", source="x"),
        evaluation=Evaluation(
            candidate_id="c001", source_hash="", stage="screen", status=Status.PASSED,
            timings=(Timing(arm="candidate", median_ms=1.0, p10_ms=1.0, p90_ms=1.0, samples_ms=((1.0,),)),),
            labels=Labels(flags=("the machine was busy: workers waited 217%",)),
        ),
    )  # fmt: skip
    assert sections.verdict(attempt).endswith("; the machine was busy: workers waited 217%")
