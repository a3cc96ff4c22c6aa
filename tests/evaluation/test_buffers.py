"""Buffers that calls rewrite are held against the float64 twin's, by eager's own error, as results are."""

from contextlib import closing

import pytest
import torch

from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.worker.session import BoundCall
from kernelskill.evaluation.worker.snapshot import Snapshot
from kernelskill.evaluation.worker.twin import twin_state
from kernelskill.records import Candidate, Status
from kernelskill.tasks import load_task

CENTRED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(512)

    def forward(self, x):
        return self.norm(x - x.mean(0))

def get_inputs():
    return [torch.rand(96, 512) * 100]

def get_init_inputs():
    return []
"""
OTHER_ORDER = CENTRED.replace("Model(", "ModelNew(").replace(
    "x - x.mean(0)", "x - x.view(4, 24, 512).sum(1).sum(0) / 96"
)
OFF = OTHER_ORDER.replace("return self.norm(", "self.norm.running_mean += 1e-5\n        return self.norm(")
KEPT = CENTRED.replace("Model(", "ModelNew(").replace(
    "return self.norm(", "self.norm.momentum = 0.0\n        return self.norm("
)


@pytest.mark.slow
def test_a_mean_that_is_all_rounding_may_be_rounded_otherwise(tmp_path):
    """The centred mean is nought but for rounding: eager's digits are no more right than another order's."""
    tmp_path.chmod(0o755)
    path = tmp_path / "task.py"
    path.write_text(CENTRED)
    with closing(Judge(load_task(str(path)), cache_dir=tmp_path / "cache", device=EagerOnly())) as judge:
        judge.describe()
        judge.baselines()
        honest, *wrong = (
            judge.screen(Candidate(id="c", source=text), None) for text in (OTHER_ORDER, OFF, KEPT)
        )
    assert honest.status is Status.PASSED, honest.detail
    assert [item.status for item in wrong] == [Status.WRONG_STATE] * 2, [item.detail for item in wrong]


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        self.seen.mul_(0.5).add_(x.mean(0))
        return self.norm(x)


def test_the_twins_state_goes_on_from_call_to_call():
    model, calls = Counting(), [torch.randn(8, 3) for _ in range(3)]
    before = Snapshot.of(model)
    found = twin_state(model, [BoundCall((x,), {}, [x], []) for x in calls])
    assert before.changed(model) == ([], []), "the reference stays as it was"
    by_hand = Counting().double()
    for x in calls:
        by_hand(x.double())
    due = {**dict(by_hand.named_parameters()), **dict(by_hand.named_buffers())}
    assert found.keys() == due.keys()
    for name, value in due.items():
        torch.testing.assert_close(found[name], value.detach(), rtol=1e-12, atol=1e-15)
    assert found["calls"] == 3
