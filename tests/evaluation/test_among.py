"""Hidden families among timed calls."""

from contextlib import closing

import pytest
import torch

from kernelskill.evaluation.among import FEW
from kernelskill.evaluation.conformance import play
from kernelskill.evaluation.conformance.case import cases
from kernelskill.evaluation.families import FAMILIES
from kernelskill.evaluation.secret import Secret
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import Status


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with closing(play._judge("softmax", "cpu", str(tmp_path_factory.mktemp("cache")))) as found:
        found.describe()
        found.baselines()
        yield found


@pytest.mark.slow
def test_every_family_comes_in_turn_at_places_drawn_by_lot(judge):
    among = judge._trial(Secret()).among
    laid = [among._chosen(32) for _ in range(18)]
    assert all(len(calls) == 1 for calls in laid)
    seen = [family for calls in laid for family in calls.values()]
    assert "overflowing" in seen[: len(set(seen))]
    assert set(seen) <= set(FAMILIES)
    assert len({call for calls in laid for call in calls}) > 9
    few = [among._chosen(FEW - 1) for _ in range(40)]
    assert 5 < sum(bool(calls) for calls in few) < 35


@pytest.mark.slow
def test_a_call_on_a_family_is_held_to_its_gates(judge):
    trial = judge._trial(Secret())
    trial.among._chosen = lambda _count: {1: "overflowing"}
    batch = trial.among.draw(3)
    due = trial.reference.eager(batch, 3)
    assert trial.among.checked(batch, due, due) == [0, 2]
    x = trial.reference.layout.views(batch, 1)[0]
    naive = [due[0], [x.exp() / x.exp().sum(1, keepdim=True)], due[2]]
    with pytest.raises(Wrong, match="a timed call on overflowing inputs"):
        trial.among.checked(batch, naive, due)
    assert torch.equal(due[1][0].sum(1).round(), torch.ones(len(x)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fast-from-the-third", "reads-how-many"])
def test_who_knows_which_calls_are_timed_meets_families_there(judge, name):
    cheat = next(case.candidate for case in cases() if case.id == name)
    verdict = judge.screen(cheat, None)
    assert verdict.status is Status.WRONG_VALUES
