"""The climb over an edit's parameter space."""

import pytest

from kernelskill.records import Edit
from kernelskill.search import Tuner


def edit(site="k", skill="block-inner", **parameters):
    space = {name: values for name, values in parameters.items() if isinstance(values, tuple)}
    first = {name: values[0] if isinstance(values, tuple) else values for name, values in parameters.items()}
    name, value = next(iter(first.items()))
    return Edit(
        skill=skill,
        site=site,
        action="schedule",
        parameters=first,
        space=space,
        summary=f"{site}: {name} 0 -> {value}",
    )


def climb(proposal, speedup_of, limit=6):
    """Ask and tell until the end; returns what was asked, in order."""
    tuner, told = Tuner(limit), []
    while (point := tuner.ask(proposal, told)) is not None:
        assert len(told) <= limit
        told.append((point, speedup_of(**point.parameters)))
    return [point.parameters for point, _ in told]


BLOCKS = (128, 32, 64, 256, 512)


def test_the_proposal_comes_first():
    assert Tuner().ask(edit(block=BLOCKS)).parameters == {"block": 128}


def test_the_climb_follows_the_gain_and_ends_at_the_top():
    asked = climb(edit(block=BLOCKS), lambda block: 1 + block / 1000)
    assert asked == [{"block": value} for value in (128, 256, 512)]


def test_a_top_at_the_proposal_costs_its_two_neighbours():
    asked = climb(edit(block=BLOCKS), lambda block: 2 - abs(block - 128) / 1000)
    assert asked == [{"block": value} for value in (128, 256, 64)]


def test_nothing_beyond_a_failure_is_tried():
    asked = climb(edit(block=BLOCKS), lambda block: None if block > 128 else 1.0)
    assert {"block": 512} not in asked
    assert {"block": 64} in asked


def test_a_proposal_that_fails_is_followed_by_its_neighbours():
    asked = climb(edit(block=BLOCKS), lambda block: None if block == 128 else 1.1)
    assert asked[:2] == [{"block": 128}, {"block": 256}]


def test_parameters_are_climbed_one_at_a_time():
    proposal = edit(block=(64, 128), unroll=(1, 2))
    asked = climb(proposal, lambda block, unroll: block / 64 + unroll)
    assert {"block": 128, "unroll": 2} in asked
    for point in asked[1:]:
        assert any(sum(point[name] != other[name] for name in point) == 1 for other in asked)


def test_the_limit_holds():
    wide = edit(block=tuple(range(1, 50)))
    assert len(climb(wide, lambda block: float(block), limit=5)) == 5


def test_words_and_switches_are_all_tried():
    proposal = edit(level=("rounding", "exact", "none"))
    asked = climb(proposal, lambda level: 1.0)
    assert [item["level"] for item in asked] == ["rounding", "exact", "none"]
    switch = edit(nontemporal=(True, False))
    assert climb(switch, lambda nontemporal: 1.0) == [{"nontemporal": True}, {"nontemporal": False}]


def test_an_edit_without_a_space_is_asked_once():
    assert len(climb(edit(block=128), lambda block: 1.0)) == 1


def test_what_paid_elsewhere_is_the_start():
    told = [(edit("other", block=256), 1.3), (edit("third", block=32), 1.1)]
    assert Tuner().ask(edit(block=BLOCKS), told).parameters == {"block": 256}


@pytest.mark.parametrize("speedup", [0.9, None])
def test_what_did_not_pay_elsewhere_is_not(speedup):
    told = [(edit("other", block=256), speedup)]
    assert Tuner().ask(edit(block=BLOCKS), told).parameters == {"block": 128}


def test_what_paid_elsewhere_but_is_not_in_the_space_is_not():
    told = [(edit("other", block=4096), 1.3)]
    assert Tuner().ask(edit(block=BLOCKS), told).parameters == {"block": 128}


def test_other_skills_say_nothing():
    told = [
        (edit(skill="tune-threads", block=128), 1.3),
        (edit("other", skill="tune-threads", block=512), 2.0),
    ]
    assert Tuner().ask(edit(block=BLOCKS), told).parameters == {"block": 128}


def test_a_value_that_became_the_bases_own_is_where_the_climb_goes_on():
    """The base took 128 over: the recipe's space no longer holds it, and what is told tells the direction."""
    remaining = edit(block=(32, 64, 256))
    told = [(edit(block=128), 1.2), (edit(block=32), 0.9)]
    point = Tuner().ask(remaining, told)
    assert point.parameters in ({"block": 256}, {"block": 64})


def test_the_summary_tells_the_value():
    told = [(edit(block=BLOCKS), 1.1)]
    assert Tuner().ask(edit(block=BLOCKS), told).summary == "k: block 0 -> 256"


def test_the_same_question_has_the_same_answer():
    told = [(edit(block=128), 1.1), (edit("other", block=64), 1.2)]
    answers = {Tuner().ask(edit(block=BLOCKS), told).key for _ in range(3)}
    assert len(answers) == 1
