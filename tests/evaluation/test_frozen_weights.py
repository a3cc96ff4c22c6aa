"""The track in which weights never change: what may be folded in there, and nowhere else."""

from contextlib import closing

import pytest

from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.device import CPU
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.worker import settings
from kernelskill.records import Candidate, Status
from kernelskill.tasks import load_task

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(96, 64)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(128, 96)]
def get_init_inputs():
    return []
"""
PACKED = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(96, 64)
        self.packed = None
    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.t().contiguous().clone(), self.linear.bias.clone()
        return torch.addmm(self.packed[1], x, self.packed[0])
"""
LIVE = REFERENCE.partition("def get_inputs")[0].replace("class Model(", "class ModelNew(")
NORM = REFERENCE.replace("torch.nn.Linear(96, 64)", "torch.nn.BatchNorm1d(96)")


def judge_of(tmp_path, source, weights, device=None):
    tmp_path.chmod(0o755)
    path = tmp_path / f"{weights}.py"
    path.write_text(source)
    return Judge(
        load_task(str(path), weights=weights), cache_dir=tmp_path / "cache", device=device or EagerOnly()
    )


def screened(judge, source):
    return judge.screen(Candidate(id="c", source=source), None)


@pytest.mark.parametrize("weights", ["live", "frozen"])
def test_packed_weights_pass_where_they_are_frozen(tmp_path, weights):
    with closing(judge_of(tmp_path, REFERENCE, weights)) as judge:
        judge.describe()
        judge.baselines()
        packed, live = screened(judge, PACKED), screened(judge, LIVE)
    assert live.status is Status.PASSED
    assert "frozen-weights" not in live.labels.kinds, "it reads its weights at every call"
    assert packed.status is (Status.PASSED if weights == "frozen" else Status.WRONG_VALUES), packed.detail
    assert "frozen-weights" in packed.labels.kinds
    assert all(item.passed for item in packed.errors) == (weights == "frozen")


def test_what_rewrites_buffers_is_turned_away(tmp_path):
    with closing(judge_of(tmp_path, NORM, "frozen")) as judge:
        found = judge.describe().findings
    assert [item.code for item in found if item.fatal] == ["not-frozen"]


def test_the_two_tracks_are_two_tasks(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(REFERENCE)
    live, frozen = (load_task(str(path), weights=weights) for weights in ("live", "frozen"))
    assert live.hash == load_task(str(path)).hash != frozen.hash


SEEDED = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.own = [torch.nn.Linear(96, 64)]  # not a submodule: nobody gives it weights
    def forward(self, x):
        return self.own[0](x)
"""


def test_the_weights_are_those_that_were_given_not_those_of_the_seed(tmp_path):
    with closing(judge_of(tmp_path, REFERENCE, "frozen")) as judge:
        judge.describe()
        judge.baselines()
        assert screened(judge, SEEDED).status is Status.WRONG_VALUES


def test_compile_is_timed_with_the_weights_folded_in_and_without(tmp_path):
    with closing(judge_of(tmp_path, REFERENCE, "frozen", CPU)) as judge:
        judge.describe()
        found = judge.baselines()
        assert {"eager", "compile", "compile-frozen"} == {item.arm for item in found.timings}, (
            found.unavailable
        )
    with closing(judge_of(tmp_path, REFERENCE, "live", CPU)) as judge:
        judge.describe()
        assert judge._need.table.timed_arms == ("eager", "compile")


def test_only_the_folding_arm_knows_the_first_weights_for_ever():
    import torch

    torch.compiler.reset()
    x = torch.randn(3, 8)
    with torch.no_grad():
        live, folded = (torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()) for _ in range(2))
        calls = torch.compile(live), settings.folding(folded)
        before = [call(x) for call in calls]
        for model in (live, folded):
            model[0].weight.zero_()
            model[0].bias.fill_(1.0)
        after = [call(x) for call in calls]
    assert torch.equal(after[0], torch.ones(3, 4)), (
        "its neighbour shares the compiler's cache, not its constants"
    )
    assert torch.equal(after[1], before[1])
