"""Promotion: faster beyond the noise, and never else."""

import pytest

from kernelskill.records import (
    Attempt,
    Candidate,
    Comparison,
    Evaluation,
    Interval,
    Outcome,
    Plan,
    Status,
)
from kernelskill.search import GreedyStrategy


def compared(arm, low, value, significant=True):
    speedup = Interval(low=low, value=value, high=value + (value - low))
    return Comparison(arm=arm, speedup=speedup, rounds=20, sets=8, significant=significant)


def attempt(*comparisons, name="c1", base="c0", status=Status.PASSED, band=0.02, judged=True):
    made = Candidate(id=name, parent_id=base, source="")
    evaluation = Evaluation(
        candidate_id=name,
        source_hash=made.source_hash,
        stage="screen",
        status=status,
        comparisons=comparisons,
        noise_band_ratio=band,
    )
    return Attempt(
        index=0,
        round=1,
        plan=Plan(base_id=base, edits=(), skill="", reason=""),
        candidate=made,
        evaluation=evaluation if judged else None,
        outcome=Outcome.NOT_FASTER,
    )


is_better = GreedyStrategy().is_better
best_of = GreedyStrategy().best_of


def test_a_small_gain_beyond_the_noise_is_better():
    assert is_better(attempt(compared("base", 1.03, 1.05)))


@pytest.mark.parametrize(
    ("low", "value", "significant"),
    [
        (0.99, 1.05, True),  # the interval reaches 1
        (1.03, 1.05, False),  # within the noise by the judge's word
    ],
)
def test_what_may_be_noise_is_not_better(low, value, significant):
    assert not is_better(attempt(compared("base", low, value, significant)))


def test_what_failed_or_was_not_judged_is_not_better():
    assert not is_better(attempt(status=Status.WRONG_VALUES))
    assert not is_better(attempt(judged=False))
    assert not is_better(attempt())


def test_faster_than_stock_is_not_faster_than_the_base():
    assert not is_better(attempt(compared("eager", 3.0, 3.1), compared("base", 0.9, 0.95, False)))
    assert not is_better(attempt(compared("eager", 3.0, 3.1)))


def test_a_first_version_must_beat_the_fastest_stock_arm():
    assert is_better(attempt(compared("eager", 2.9, 3.0), compared("compile", 1.1, 1.2), base=""))
    assert not is_better(attempt(compared("eager", 2.9, 3.0), compared("compile", 0.8, 0.9, False), base=""))


def test_the_best_is_ranked_by_the_fastest_stock_arm():
    slow = attempt(compared("eager", 4.0, 4.1), compared("compile", 1.0, 1.1), name="c0", base="")
    fast = attempt(compared("eager", 2.0, 2.1), compared("compile", 1.4, 1.5), name="c1", base="")
    assert best_of([slow, fast]).candidate.id == "c1"


def test_of_equals_the_earlier_one_is_best():
    twins = [attempt(compared("eager", 2.0, 2.1), name=name, base="") for name in ("c0", "c1")]
    assert best_of(twins).candidate.id == "c0"


def test_a_paired_gain_over_the_base_outweighs_two_screens_at_different_times():
    seed = attempt(compared("eager", 2.0, 2.1), name="c0", base="")
    child = attempt(compared("eager", 1.8, 1.9), compared("base", 1.1, 1.2), name="c1", base="c0")
    assert best_of([seed, child]).candidate.id == "c1"


def test_a_slower_child_is_not_best_however_slow_stock_was_meanwhile():
    seed = attempt(compared("eager", 2.0, 2.1), name="c0", base="")
    child = attempt(compared("eager", 2.8, 2.9), compared("base", 0.8, 0.9, False), name="c1", base="c0")
    assert best_of([seed, child]).candidate.id == "c0"


def test_nothing_verified_has_no_best():
    assert best_of([]) is None
    assert best_of([attempt(status=Status.CRASHED), attempt(judged=False)]) is None
