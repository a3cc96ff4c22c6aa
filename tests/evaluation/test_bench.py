"""Stock arms that share a process: each with a model of its own, and none the worse for one that fails."""

import secrets
from contextlib import closing

import pytest
import torch

from kernelskill.evaluation import processes
from kernelskill.evaluation.conformance.case import task
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.seat import results
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.records import Status


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with closing(Judge(task("norm"), cache_dir=tmp_path_factory.mktemp("cache"))) as made:
        made.describe()
        yield made


@pytest.fixture
def first(judge):
    side = judge._need.side
    return side.draw([secrets.randbits(62) for _ in range(side.layout.count)])


def bench(judge, first, *arms):
    return judge._need.table.bench(arms, judge._need.side.initial, first)


def test_an_arm_that_fails_leaves_the_others_in_a_fresh_process(judge, first):
    seats, failed = bench(judge, first, "eager", "graph", "compile")  # a CPU captures no CUDA graph
    try:
        assert list(failed) == ["graph"]
        assert list(seats) == ["eager", "compile"]
        (pid,) = {seat.worker.pid for seat in seats.values()}
        assert processes.living(pid)
        eager, compiled = (results(seat, first, 1)[0][0] for seat in seats.values())
        assert torch.allclose(eager, compiled, atol=1e-4)
    finally:
        for seat in seats.values():
            seat.close()
    assert not processes.living(pid)


def test_each_arm_has_its_own_parameters(judge, first):
    seats, _ = bench(judge, first, "eager", "compile")
    initial = judge._need.side.initial
    try:
        before = {arm: results(seat, first, 1)[0][0] for arm, seat in seats.items()}
        seats["eager"].give_state({name: 2 * value + 1 for name, value in initial.items()})
        after = {arm: results(seat, first, 1)[0][0] for arm, seat in seats.items()}
        assert not torch.allclose(after["eager"], before["eager"], atol=1e-3)
        assert torch.equal(after["compile"], before["compile"])
    finally:
        for seat in seats.values():
            seat.close()


def test_a_frozen_arm_wakes_for_its_neighbour(judge, first):
    seats, _ = bench(judge, first, "eager", "compile")
    try:
        seats["eager"].burst(first, rest=True)
        assert seats["compile"].worker.frozen
        assert seats["compile"].burst(first).wall_ms > 0
    finally:
        for seat in seats.values():
            seat.close()


def test_eager_has_to_run(judge, first, monkeypatch):
    from kernelskill.evaluation.seat import Seat

    def refused(self, *_args, **_kwargs):
        raise StockFailure(self.arm, WorkerFailure(Status.RUNTIME_ERROR, "no", ""))

    monkeypatch.setattr(Seat, "burst", refused)
    with pytest.raises(StockFailure, match="eager"):
        bench(judge, first, "eager", "compile")


def test_an_arm_lost_while_it_is_timed_is_told_and_the_others_are_timed(judge, monkeypatch):
    measure, lost = Judge._measure, []

    def losing(self, arms, *args, **kwargs):
        if not lost:
            lost.append(arms["compile"].worker.pid)
            raise StockFailure("compile", WorkerFailure(Status.RUNTIME_ERROR, "lost", ""))
        return measure(self, arms, *args, **kwargs)

    monkeypatch.setattr(Judge, "_measure", losing)
    found = judge.baselines()
    assert [item.arm for item in found.timings] == ["eager"]
    assert "lost" in found.unavailable["compile"]
    assert not processes.living(lost[0])
