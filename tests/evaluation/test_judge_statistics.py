"""Intervals, significance, and what counts as noise."""

import random
from statistics import median

import pytest

from kernelskill.evaluation import contention, statistics
from kernelskill.evaluation.rounds import Measured, rounds_for
from kernelskill.evaluation.seat import Burst


def test_rank_interval_covers_the_median_as_often_as_it_says():
    rng = random.Random(7)
    for count in (9, 15, 25):
        hits = 0
        for _ in range(2000):
            interval = statistics.rank_interval([rng.lognormvariate(0, 0.1) for _ in range(count)])
            hits += interval.low <= 1 <= interval.high
        assert hits / 2000 > 0.94


def test_set_interval_covers_when_sets_differ_more_than_rounds():
    rng = random.Random(11)
    hits = 0
    for _ in range(1000):
        shifts = [rng.gauss(0, 0.05) for _ in range(4)]
        sets = [[2.718281828 ** (shift + rng.gauss(0, 0.01)) for _ in range(9)] for shift in shifts]
        interval = statistics.set_interval(sets)
        hits += interval.low <= 1 <= interval.high
    assert hits / 1000 > 0.93


def test_a_clear_gain_is_significant_and_a_small_one_is_not():
    assert statistics.compare("eager", [[1.3] * 9], 0.02).significant
    assert not statistics.compare("eager", [[1.015] * 9], 0.02).significant
    assert not statistics.compare("eager", [[1 / 1.3] * 9], 0.02).significant


def test_rounds_and_sets_must_agree():
    assert not statistics.compare("eager", [[1.5] * 6 + [0.9] * 3], 0.02).significant
    assert not statistics.compare("eager", [[1.5] * 9, [1.5] * 9, [0.98] * 9, [1.5] * 9], 0.02).significant


def test_a_new_base_needs_the_interval_and_the_band_only():
    ratios = [[1.3] * 14 + [0.9, 0.88, 0.74]]
    assert not statistics.compare("eager", ratios, 0.05).significant
    assert statistics.compare("base", ratios, 0.05, agreeing=False).significant
    assert not statistics.compare("base", ratios, 0.35, agreeing=False).significant
    assert not statistics.compare("base", [[1.3] * 9 + [0.9] * 8], 0.05, agreeing=False).significant


def test_a_base_that_is_no_faster_is_seldom_replaced():
    rng = random.Random(5)
    sets = [[[rng.lognormvariate(0, 0.1) for _ in range(17)]] for _ in range(2000)]
    replaced = sum(statistics.compare("base", one, 0.02, agreeing=False).significant for one in sets)
    assert replaced / 2000 < 0.03


def test_the_sign_test_is_the_binomial_tail():
    assert statistics.sign_chance([2.0] * 9) == pytest.approx(1 / 512)
    assert statistics.sign_chance([2.0] * 8 + [0.5]) == pytest.approx(10 / 512)
    assert statistics.sign_chance([0.5] * 9) == 1.0


def test_what_waiting_explains_is_not_a_gain():
    ratios = [[1.8] * 9]
    assert statistics.compare("eager", ratios, 0.02, [[1.7] * 9]).significant
    assert not statistics.compare("eager", ratios, 0.02, [[0.95] * 9]).significant


def test_the_same_arm_is_practically_never_faster_than_itself():
    rng = random.Random(3)
    found = 0
    for _ in range(3000):
        ratios = [rng.lognormvariate(0, 0.05) / rng.lognormvariate(0, 0.05) for _ in range(15)]
        found += statistics.compare("eager", [ratios], 0.02).significant
    assert found / 3000 < 0.005


def test_the_noise_band_has_a_floor_and_leaves_out_what_waiting_explains():
    assert statistics.noise_band([1.0] * 9) == statistics.NOISE_FLOOR
    assert statistics.noise_band([1.2] * 9) == pytest.approx(0.2)
    assert statistics.noise_band([1 / 1.2] * 9) == pytest.approx(0.2)
    assert statistics.noise_band([1.2] * 9, busy_ratio=0.5) == statistics.NOISE_FLOOR
    assert statistics.noise_band([3.0] * 9) == statistics.NOISE_CEILING


def test_rounds_are_fixed_by_the_length_of_a_burst_and_odd():
    for eager_ms in (0.001, 1.0, 40.0, 5000.0):
        assert rounds_for(eager_ms, 8, 0.5) % 2 == 1
    assert rounds_for(5000.0, 8, 0.5) < rounds_for(0.001, 8, 0.5)


def burst(wall, worker=0.0, **changes):
    import torch

    return Burst(wall_ms=wall, worker_ms=worker, outputs=torch.empty(0), **changes)


def measured(**arms):
    found = Measured(calls=4)
    for _ in range(9):
        found.add({"null": burst(1.0), **arms})
    return found


def test_the_larger_of_both_clocks_ranks():
    found = measured(candidate=burst(3.0, worker=1.0), eager=burst(3.0, worker=9.0))
    assert found.times("candidate") == [2.0] * 9
    assert found.times("eager") == [9.0] * 9


def rounds_of(wall, worker):
    found = Measured(calls=4)
    for seen, said in zip(wall, worker, strict=True):
        found.add({"null": burst(1.0), "candidate": burst(seen, worker=said)})
    return found.times("candidate")


def test_hiccups_of_the_transport_do_not_rank():
    wall = [3.1, 4.0, 3.1, 4.2, 3.1, 3.1, 3.9, 3.1, 3.1]
    assert rounds_of(wall, [2.0] * 9) == pytest.approx([2.1] * 9)


@pytest.mark.parametrize(
    "said", [[0.0] * 9, [0.1, 50.0] * 4 + [0.1], [-5.0] * 9, [9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0]]
)
def test_whatever_a_worker_says_its_median_is_not_below_what_the_judge_saw(said):
    assert median(rounds_of([3.0] * 9, said)) >= 2.0


def test_work_after_the_answer_and_undeclared_processors_are_refused():
    from kernelskill.evaluation.process import WorkerFailure

    honest = measured(candidate=burst(3.0, late_ms=0.1, processors=1.9))
    honest.honest("candidate", threads=2)
    with pytest.raises(WorkerFailure, match="after it has answered"):
        measured(candidate=burst(3.0, late_ms=5.0)).honest("candidate", threads=2)
    with pytest.raises(WorkerFailure, match="processors busy"):
        measured(candidate=burst(3.0, processors=1.9)).honest("candidate", threads=1)


def test_a_slowdown_needs_more_waiting_than_a_quiet_machine_has():
    assert contention.slowdown(0.0, 1.0) == 1.0
    assert contention.slowdown(0.01, 1.0) == 1.0
    assert contention.slowdown(1.0, 1.0) == pytest.approx(2.0, abs=0.05)
