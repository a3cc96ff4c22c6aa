"""Finalists in fresh processes: where memory holds one set at a time, and who changes his ways once examined."""

from contextlib import closing

import pytest

from kernelskill.evaluation import processes
from kernelskill.evaluation.among import Among
from kernelskill.evaluation.conformance.case import task
from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.families import FAMILIES
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Candidate, Status

HONEST = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1
"""
LATE = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.relu(x) + 1 if self.calls < 250 else x + 1
"""


class Crowded(EagerOnly):
    """A machine with room for one process set."""

    def worker_bytes(self, moved):
        return 10 * self.free_bytes()


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    made = Judge(task("relu"), cache_dir=tmp_path_factory.mktemp("cache"), device=Crowded(), promotion_sets=3)
    with closing(made):
        made.describe()
        made.baselines()
        yield made


def test_sets_that_wait_for_memory_are_of_processes_of_their_own(judge, monkeypatch):
    seen = []
    measure = Judge._measure

    def watched(self, arms, *args, **kwargs):
        seen.append({seat.worker.pid for seat in arms.values()})
        return measure(self, arms, *args, **kwargs)

    monkeypatch.setattr(Judge, "_measure", watched)
    evaluation = judge.promote(Candidate(id="honest", source=HONEST))
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert all(item.sets == 3 for item in evaluation.comparisons)
    assert [len(pids) for pids in seen] == [2, 2, 2]
    assert len(set.union(*seen)) == 6
    assert not [pid for pids in seen for pid in pids if processes.living(pid)]


def test_who_is_right_only_while_examined_is_refused(judge, monkeypatch):
    monkeypatch.setattr("kernelskill.evaluation.judge.LOT", len(FAMILIES))  # no matter what is drawn
    found = judge.promote(Candidate(id="late", source=LATE))
    assert (found.status, found.detail[:12]) == (Status.WRONG_VALUES, "a timed call"), found.detail
    monkeypatch.setattr(Among, "_chosen", lambda _self, _count: {})
    found = judge.promote(Candidate(id="late", source=LATE))
    assert found.status is Status.WRONG_VALUES
    assert "once it had been timed" in found.detail, "examined again, it is found out by that as well"
