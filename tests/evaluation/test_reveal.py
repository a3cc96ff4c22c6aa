"""Calls that are revealed one by one: who works ahead is ranked by them, who does not is left alone."""

from contextlib import closing

import pytest

from kernelskill.evaluation.conformance.case import task
from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.reveal import works_ahead
from kernelskill.records import Candidate, Status

STEADY = [1.0, 1.01, 1.02, 1.0, 0.99, 1.0, 1.01]


def test_a_single_call_that_costs_much_more_than_in_a_burst_shows():
    ahead = [8 * time for time in STEADY]
    assert works_ahead(ahead, STEADY, mine_ranked=0.25, stock_ranked=1.0) == pytest.approx(7.75, abs=0.05)


def test_what_a_single_call_costs_every_arm_is_no_sign():
    switched = [time + 0.4 for time in STEADY]
    assert works_ahead(switched, switched, mine_ranked=1.0, stock_ranked=1.0) == 0
    assert works_ahead(switched, [time + 0.4 for time in STEADY], mine_ranked=0.9, stock_ranked=1.0) == 0


def test_scatter_is_no_sign():
    wild = [0.2, 3.0, 0.3, 2.8, 0.4, 2.0, 1.5]
    assert works_ahead(wild, STEADY, mine_ranked=0.5, stock_ranked=1.0) == 0


AHEAD = """
import time
import torch
class ModelNew(torch.nn.Module):
    # As one that computes a whole burst in its first call: the work of many calls is paid for once.
    def forward(self, x):
        import sys
        frame = sys._getframe()
        while frame is not None and not isinstance(frame.f_locals.get("order"), list):
            frame = frame.f_back
        alone = frame is not None and len(frame.f_locals["order"]) == 1
        if alone:
            end = time.perf_counter() + 0.05
            while time.perf_counter() < end:
                pass
        return torch.softmax(torch.tanh(x) * 2 + torch.sigmoid(x), 1)
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    made = Judge(task("heavy"), cache_dir=tmp_path_factory.mktemp("cache"), device=EagerOnly())
    with closing(made):
        made.describe()
        made.baselines()
        yield made


@pytest.mark.slow
def test_a_promotion_ranks_one_call_at_a_time_where_bursts_flatter(judge):
    judge.promotion_sets = 1
    evaluation = judge.promote(Candidate(id="ahead", source=AHEAD))
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert any("ranked one call at a time" in flag for flag in evaluation.labels.flags)
    mine = next(item.median_ms for item in evaluation.timings if item.arm == "candidate")
    assert mine > 40
    assert not any(item.significant for item in evaluation.comparisons)
