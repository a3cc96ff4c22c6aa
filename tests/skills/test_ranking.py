"""Priors, evidence, shrinkage, the transfer guard and bounded exploration."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelskill.records import Interval, Status
from kernelskill.skills import Context, Evidence
from kernelskill.skills.ranking import LARGEST_BONUS, estimate, of_program

HERE = Context(device="m", kernel_kind="map", bound="memory", op_class="elementwise")
SAME_KIND = HERE.model_copy(update={"op_class": "norm"})
ELSEWHERE = Context(device="other", kernel_kind="reduce", bound="compute", op_class="norm")


def row(speedup=None, context=HERE, verdict=Status.PASSED, sole=True, spread=0.02, attempt=0):
    interval = None
    if speedup is not None:
        interval = Interval(low=speedup * (1 - spread), value=speedup, high=speedup * (1 + spread))
    return Evidence(
        run="r", attempt=attempt, skill="s", context=context, verdict=verdict, speedup=interval, sole=sole
    )


def test_without_evidence_the_prior_holds():
    found = estimate(0.3, [], HERE)
    assert found.mean == pytest.approx(0.3)
    assert found.expected_speedup == pytest.approx(math.exp(0.3))
    assert (found.verified, found.rejected, found.suspended) == (0, 0, "")


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8), st.floats(0, 1))
def test_the_mean_lies_between_prior_and_evidence_and_certainty_grows(speedups, prior):
    rows = [row(value) for value in speedups]
    found = estimate(prior, rows, HERE)
    ends = [prior, *(math.log(value) for value in speedups)]
    assert min(ends) - 1e-9 <= found.mean <= max(ends) + 1e-9
    assert found.deviation < estimate(prior, rows[1:], HERE).deviation


def test_much_evidence_overrules_the_prior():
    found = estimate(0.5, [row(1.02)] * 40, HERE)
    assert found.mean == pytest.approx(math.log(1.02), abs=0.01)


def test_unlike_contexts_and_noisy_rows_count_less():
    near, middle, far = (
        estimate(0.0, [row(1.5, context)], HERE).mean for context in (HERE, SAME_KIND, ELSEWHERE)
    )
    assert near > middle > far > 0
    assert estimate(0.0, [row(1.5, spread=0.4)], HERE).mean < near


def test_only_verified_rows_are_gain_and_only_blameworthy_ones_are_donts():
    prior = estimate(0.2, [], HERE)
    ignored = [
        row(None),
        row(3.0, sole=False),
        row(None, verdict=Status.UNTESTABLE),
        row(None, verdict=Status.NOT_ALLOWED),
        row(None, verdict=Status.CRASHED, sole=False),
    ]
    assert estimate(0.2, ignored, HERE) == prior
    wrong = estimate(0.2, [row(None, verdict=Status.WRONG_VALUES)] * 3, HERE)
    assert wrong.mean == prior.mean
    assert wrong.success_ratio < prior.success_ratio
    assert wrong.score < prior.score
    assert wrong.rejected == 3


def test_gains_made_elsewhere_end_where_there_is_no_more_to_save():
    rows = [row(3.0)] * 10
    most = math.log(1.1)
    found = estimate(0.0, rows, HERE, most)
    assert estimate(0.0, rows, HERE).mean > most
    assert not estimate(0.0, rows, HERE).bounded
    assert (found.mean, found.bounded) == (pytest.approx(most), True)
    assert estimate(0.0, [row(0.9)], HERE, most).mean < 0, "a limit is no promise"
    assert not estimate(0.0, [row(0.9)], HERE, most).bounded


def test_a_part_saves_no_more_than_its_share():
    assert of_program(math.inf, 0.5) == pytest.approx(math.log(2))
    assert of_program(math.inf, 1.0) == math.inf
    assert of_program(math.inf, None) == math.inf


def test_the_guard_suspends_where_it_hurts_and_nowhere_else():
    hurts = [row(0.8, attempt=index) for index in range(2)]
    found = estimate(0.3, hurts, HERE).suspended
    assert "of 2 verified tries in like contexts 2 were slower and 0 faster, 0.8x on average" in found
    assert estimate(0.3, hurts, SAME_KIND).suspended
    assert not estimate(0.3, hurts, ELSEWHERE).suspended
    assert not estimate(0.3, hurts[:1], HERE).suspended, "one loss may be chance"
    assert estimate(0.3, [row(0.96, spread=0.02)] * 2, HERE).suspended, "small, but the judge was sure of it"
    assert not estimate(0.3, [row(0.99, spread=0.05)] * 3, HERE).suspended, "within the noise"
    assert not estimate(0.3, [*hurts, row(1.6)], HERE).suspended, "it has paid here as well"
    donts = [row(None, verdict=Status.CRASHED)] * 9
    assert not estimate(0.3, donts, HERE).suspended, "failures lower the rank, they are no measurement"


def test_exploration_is_bounded():
    for rows in ([], [row(1.1)] * 5):
        found = estimate(0.1, rows, HERE)
        assert 0 < found.score - found.mean * found.success_ratio <= LARGEST_BONUS
    bonus = [estimate(0.0, [row(1.0)] * n, HERE).score for n in (0, 20, 200)]
    assert bonus == sorted(bonus, reverse=True)


@pytest.mark.parametrize(("share", "limit"), [(0.0, 1.0), (0.5, 2.0), (0.9, 10.0)])
def test_amdahl(share, limit):
    assert math.exp(of_program(50.0, share)) == pytest.approx(limit)
    assert of_program(0.3, 1.0) == pytest.approx(0.3)
    assert of_program(0.3, None) == 0.3
