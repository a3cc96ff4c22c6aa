"""No round is begun that is expected to gain less than it costs; what is expected rests on evidence and the floor."""

import pytest
from scripted_model import scene
from test_model_planner import BASE, FACTS, RETRIEVAL, answer, decision

from kernelskill.agents.llm import ModelPlanner
from kernelskill.agents.llm.worth import NotWorthIt, expected
from kernelskill.errors import ModelError
from kernelskill.records import Fact, Facts


def gate(**speedups):
    decisions = [
        decision(skill).model_copy(update={"expected_speedup": speedup})
        for skill, speedup in {"unroll-accumulate": 1.25, **speedups}.items()
    ]
    return RETRIEVAL.model_copy(update={"decisions": (*decisions, decision("split-rows", admitted=False))})


def near_the_floor(floor_ms):
    return Facts(facts=(*FACTS.facts, Fact(name="floor_ms", value=floor_ms, origin="parsed", unit="ms")))


def planned(here, usd_a_call, facts=FACTS, retrieval=None):
    here.model.usd_a_call = usd_a_call
    return ModelPlanner(here).plan(BASE, facts, retrieval or gate(), here.memory)


def test_a_gain_that_is_worth_its_round_is_tried():
    """20 % at a cent each are 20 cents; plan and file cost 19.98."""
    assert planned(scene(answer(), percent_usd=0.01), 0.0999).skill == "unroll-accumulate"


def test_one_that_is_not_ends_the_turn_before_anybody_is_asked():
    here = scene(percent_usd=0.01)
    with pytest.raises(NotWorthIt, match=r"save 20 % .*unroll-accumulate.* worth \$0.2000 .* about \$0.2002"):
        planned(here, 0.1001)
    assert here.model.calls == []
    assert issubclass(NotWorthIt, ModelError), "the loop ends the turn with it, and the best version stays"


def test_the_floor_bounds_what_evidence_hopes_for():
    assert expected(gate(), near_the_floor(0.9)) == (
        "unroll-accumulate, up to the floor",
        pytest.approx(1 / 0.9),
    )
    assert expected(gate(), near_the_floor(0.1)) == ("unroll-accumulate", 1.25)
    assert expected(gate(), FACTS) == ("unroll-accumulate", 1.25)
    with pytest.raises(NotWorthIt, match="save 2 % of a call"):
        planned(scene(percent_usd=0.01), 0.02, near_the_floor(0.98))


def test_a_base_faster_than_its_floor_is_expected_to_gain_nothing():
    assert expected(gate(), near_the_floor(1.2))[1] == 1.0


def test_the_most_promising_skill_decides():
    assert expected(gate(**{"tune-threads": 3.0}), FACTS) == ("tune-threads", 3.0)


def test_without_a_worth_or_a_price_every_round_is_tried():
    assert planned(scene(answer()), 100.0).skill == "unroll-accumulate"
    assert planned(scene(answer(), percent_usd=0.01), None).skill == "unroll-accumulate"
