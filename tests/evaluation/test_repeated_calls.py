"""The call on earlier inputs that comes before bursts on a GPU, played on the processor."""

from contextlib import closing

import pytest

from kernelskill.evaluation.among import Among
from kernelskill.evaluation.conformance import play
from kernelskill.evaluation.conformance.case import cases
from kernelskill.evaluation.seat import Seat
from kernelskill.records import Status

CHEAT = next(case for case in cases() if case.id == "gpu-fast-after-a-repeat")


def asks_once_more(seat, command="run"):
    """As a seat on a GPU does."""
    seat.wake()
    if seat._warm and seat._watched:
        seat._asked(command, range(1), seat.seconds)


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_cheat_that_waits_for_it_meets_it_where_it_is_examined(monkeypatch, tmp_path, everywhere):
    monkeypatch.setattr(Seat, "ready", asks_once_more)
    if everywhere:
        monkeypatch.setattr(Seat, "warm", asks_once_more)
    else:  # those would find it as well
        monkeypatch.setattr(Among, "_chosen", lambda _self, _count: {})
    with closing(play._judge(CHEAT.task, "cpu", str(tmp_path))) as judge:
        judge.describe()
        judge.baselines()
        verdict = judge.screen(CHEAT.candidate, None)
    assert verdict.status is (Status.WRONG_VALUES if everywhere else Status.PASSED), verdict.detail
    assert not everywhere or verdict.detail.startswith("overflowing inputs")
