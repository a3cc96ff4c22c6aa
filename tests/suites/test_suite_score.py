"""The score against numbers worked out by hand."""

import math

import pytest
from written_suites import answer, line, manifest, session, task

from kernelskill.records import Interval, TaskOutcome
from kernelskill.suites.score import score

TASKS = [task(1, number) for number in range(1, 7)]
LINES = [
    line(TASKS[0], TaskOutcome.FASTER, answer(4.0, 2.0, skills=("fuse",), time_ms=0.4), work="norm"),
    line(
        TASKS[1], TaskOutcome.FASTER, answer(1.6, 1.25, skills=("fuse", "split"), time_ms=0.64), work="norm"
    ),
    line(TASKS[2], TaskOutcome.VERIFIED, answer(1.0, 0.8, TaskOutcome.VERIFIED), reason="slower"),
    line(TASKS[3], TaskOutcome.STOCK, reason="nothing-to-gain"),
    line(TASKS[4], TaskOutcome.UNTESTABLE, reason="stochastic"),
    line(TASKS[5], TaskOutcome.FAILED, reason="signal SIGSEGV"),
]


def groups(lines=LINES, **aside):
    return {item.group: item for item in score(manifest(TASKS), lines, [session()], aside).groups}


def test_each_task_counts_once():
    whole = groups()["all tasks"]
    assert (whole.tasks, whole.success, whole.faster, whole.fallback, whole.rejected) == (6, 3, 2, 2, 0)
    assert (whole.untestable, whole.failed) == (1, 1)


def test_fast_p_takes_the_lower_end_over_all_tasks():
    whole = groups()["all tasks"]
    # lower ends over best stock: 1.96, 1.225, 0.784
    assert whole.stock.fast_ratio == {"1": 2 / 6, "1.1": 2 / 6, "1.5": 1 / 6, "2": 0}
    # over eager: 3.92, 1.568, 0.98
    assert whole.eager.fast_ratio == {"1": 2 / 6, "1.1": 2 / 6, "1.5": 2 / 6, "2": 1 / 6}


def test_means_count_one_for_what_falls_back():
    stock = groups()["all tasks"].stock
    assert stock.geomean_all == pytest.approx((2.0 * 1.25) ** (1 / 6))
    assert stock.mean_all == pytest.approx((2.0 + 1.25 + 4) / 6)


def test_means_over_verified_candidates_keep_the_slower_ones():
    stock = groups()["all tasks"].stock
    assert stock.geomean_verified == pytest.approx((2.0 * 1.25 * 0.8) ** (1 / 3))
    assert stock.mean_verified == pytest.approx((2.0 + 1.25 + 0.8) / 3)
    assert stock.median_verified == pytest.approx(1.25)


def test_share_of_the_floor_is_over_the_answers():
    assert groups()["all tasks"].floor_share_ratio == pytest.approx(math.sqrt(0.1 / 0.4 * 0.1 / 0.64))


def test_tasks_set_aside_leave_the_second_row_only():
    rows = groups(**{"level1/1_Gate": "too small"})
    assert rows["all tasks"].tasks == 6
    kept = rows["without those set aside"]
    assert (kept.tasks, kept.faster, kept.untestable) == (4, 1, 0)
    assert kept.stock.geomean_all == pytest.approx(1.25 ** (1 / 4))


def test_work_and_skills_have_rows():
    rows = groups()
    assert (rows["work: norm"].tasks, rows["work: norm"].faster) == (2, 2)
    assert rows["skill: fuse"].tasks == 2
    assert rows["skill: split"].stock.geomean_verified == pytest.approx(1.25)
    assert "level 1" not in rows, "one level is the whole"


def test_a_speedup_beyond_the_floor_is_cut_down_to_it():
    lines = [line(TASKS[0], TaskOutcome.FASTER, answer(40.0, 32.0), eager_ms=1.0, best_ms=0.8, floor_ms=0.1)]
    whole = groups(lines)["all tasks"]
    assert whole.eager.mean_verified == pytest.approx(10.0)
    assert whole.stock.mean_verified == pytest.approx(8.0)
    assert (whole.eager.capped, whole.stock.capped) == (1, 1)
    assert whole.stock.fast_ratio["2"] == 1.0


def test_the_arm_that_is_beaten_by_least_is_best_stock():
    over = {"eager": Interval(low=1.9, value=2.0, high=2.1), "compile": Interval(low=1.4, value=1.5, high=1.6),
            "graph": Interval(low=1.1, value=1.2, high=1.3)}  # fmt: skip
    won = answer(2.0, 1.5).model_copy(update={"over": over, "significant": tuple(over)})
    whole = groups([line(TASKS[0], TaskOutcome.FASTER, won)])["all tasks"]
    assert whole.stock.mean_verified == pytest.approx(1.2)
    assert (whole.stock.fast_ratio["1"], whole.stock.fast_ratio["1.1"]) == (1.0, 0.0), "1.1 is not above 1.1"


def test_what_the_judge_put_down_to_noise_is_not_fast():
    close = answer(1.8, 1.7).model_copy(update={"significant": ("eager",)})
    whole = groups([line(TASKS[0], TaskOutcome.VERIFIED, close, reason="a busy machine")])["all tasks"]
    assert set(whole.stock.fast_ratio.values()) == {0.0}, "whatever its interval"
    assert whole.eager.fast_ratio == {"1": 1.0, "1.1": 1.0, "1.5": 1.0, "2": 0.0}


def test_a_stock_recipe_under_another_name_is_no_success():
    copied = answer(1.3, 1.01).model_copy(update={"is_baseline": True, "outcome": TaskOutcome.VERIFIED})
    whole = groups([line(TASKS[0], TaskOutcome.STOCK, copied, reason="a stock recipe")])["all tasks"]
    assert (whole.success, whole.fallback) == (0, 1)
    assert whole.eager.geomean_verified is None


def test_the_best_of_several_samples_counts_and_their_number_is_told():
    wrong = answer(0, 0, TaskOutcome.REJECTED, "wrong-values", id="s0")
    slow, fast = answer(1.2, 1.1, id="s1", sample=1), answer(1.5, 1.4, id="s2", sample=2)
    found = score(
        manifest(TASKS[:1], kind="candidates"),
        [line(TASKS[0], TaskOutcome.FASTER, wrong, slow, fast)],
        [],
        {},
    )
    assert found.samples == 3
    assert found.groups[0].stock.mean_verified == pytest.approx(1.4)


def test_an_empty_run_has_means_of_one_and_no_share():
    only = [line(TASKS[0], TaskOutcome.FAILED, reason="gone")]
    whole = groups(only)["all tasks"]
    assert (whole.stock.geomean_all, whole.stock.mean_all, whole.floor_share_ratio) == (1.0, 1.0, None)


def test_idle_share_is_weighted_by_wall_time_of_the_sessions_that_tell_it():
    found = score(manifest(TASKS), LINES, [session(100, 0.5), session(300, 0.1), session(999, None)], {})
    assert found.idle_ratio == pytest.approx((50 + 30) / 400)
    assert found.wall_s == pytest.approx(1399)


def test_what_tasks_had_of_their_gpus_is_summed_by_how():
    one, two = task(1, 1, "a"), task(1, 2, "b")
    lines = [line(one, TaskOutcome.STOCK), line(two, TaskOutcome.STOCK)]
    assert score(manifest([one, two]), lines, [], {}).gpu_s == {"alone": 5.0, "shared": 3.0}
