"""Calls so large that memory holds few copies of their inputs and outputs, measured as multiples of what they move."""

from contextlib import closing

import pytest
import torch
from live_memory import Meter
from references import codes, reference, session

from kernelskill.evaluation import errors_summed, power
from kernelskill.evaluation.conformance.play import EagerOnly
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.secret import Secret
from kernelskill.evaluation.trial import PERTURBED, TOUCHED, Trial
from kernelskill.evaluation.worker import draws, pieces
from kernelskill.evaluation.worker.examine import handle_describe
from kernelskill.records import Candidate, Workload
from kernelskill.tasks import load_task

ROWS, WIDTH = 64, 4096
MOVED = 2 * 4 * ROWS * WIDTH
"""Bytes of a call that takes one float32 tensor and gives another."""
TASK = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
def get_inputs():
    return [torch.randn({rows}, {width})]
def get_init_inputs():
    return []
"""


def source(forward, init="pass"):
    return TASK.format(init=init, forward=forward, rows=ROWS, width=WIDTH)


@pytest.mark.parametrize(
    ("forward", "init"),
    [
        ("return torch.relu(x)", "pass"),
        ("return x / torch.mean(torch.abs(x), dim=1, keepdim=True)", "pass"),
        ("return x / torch.norm(x, p=2, dim=1, keepdim=True)", "pass"),
        ("return self.n(x.view(64, 64, 64)).view(64, 4096)", "self.n = nn.GroupNorm(8, 64)"),
        ("return (x * 2).t()", "pass"),
    ],
)
def test_a_reference_is_looked_at_in_three_times_what_a_call_moves(tmp_path, monkeypatch, forward, init):
    monkeypatch.setattr(draws, "KEPT_BYTES", 0)
    monkeypatch.setattr(pieces, "PIECE", 1 << 10)
    made = session(tmp_path, reference(source(forward, init)))
    with Meter() as meter:
        found = Workload.model_validate(handle_describe(made, {"seed": 3}))
    assert meter.peak <= 3 * MOVED, meter.step
    assert codes(found) == {}
    assert found.graph is not None


def test_sets_of_inputs_that_are_not_kept_are_drawn_the_same_again(tmp_path, monkeypatch):
    made = session(tmp_path, reference(source("return x + 1")))
    kept = draws.Draws(made, 7)
    monkeypatch.setattr(draws, "KEPT_BYTES", 0)
    anew = draws.Draws(made, 7)
    for number in (0, 1, 0):
        (one,), (other,) = kept.copies(number), anew.copies(number)
        assert torch.equal(one, other)
        one.zero_()
    assert not torch.equal(kept.copies(0)[0], kept.copies(1)[0])


@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x.mT, lambda x: x[:, ::2], lambda x: x[:1]])
def test_pieces_hold_each_element_once_and_side_by_side(monkeypatch, layout):
    monkeypatch.setattr(pieces, "PIECE", 100)
    one = layout(torch.arange(40 * 30.0).view(40, 30))
    parts = list(pieces.pieces(one, -one))
    assert max(mine.numel() for mine, _ in parts) <= 100
    assert all(torch.equal(mine, -other) for mine, other in parts)
    assert torch.equal(torch.cat([mine.reshape(-1) for mine, _ in parts]), one.reshape(-1))


class OneCall(EagerOnly):
    """A machine on which one call fills the memory that is lent."""

    slot_bytes = MOVED


WEIGHTED = "import torch\nimport torch.nn as nn\n" + source(
    "return torch.sigmoid(x * self.w)", f"self.w = nn.Parameter(torch.ones({WIDTH}))"
)
LENT = 4 * MOVED
"""Memory lent to the reference (eager, its twin in double precision, and draws) and to one candidate."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("huge")
    folder.chmod(0o755)
    (folder / "task.py").write_text(WEIGHTED)
    made = Judge(load_task(str(folder / "task.py")), cache_dir=folder / "cache", device=OneCall())
    with closing(made):
        made.describe()
        yield made


def test_little_is_held_while_the_twin_computes_and_while_results_are_compared(judge, monkeypatch):
    monkeypatch.setattr(errors_summed, "PIECE", 1 << 10)
    monkeypatch.setattr(power, "SAMPLE", 1 << 12)
    monkeypatch.setattr(power, "STRETCHES", 16)
    candidate = Candidate(id="honest", source=WEIGHTED.replace("class Model(", "class ModelNew("))
    table, side = judge._need.table, judge._need.side
    assert side.layout.count == 1
    held, compared, gate = [], [], Trial._gate

    def watched(trial, *args):
        meter.peak = 0
        gate(trial, *args)
        compared.append(meter.peak)

    with closing(table.candidate(candidate)) as seat, Meter() as meter:
        monkeypatch.setattr(side, "make_room", lambda: held.append(meter.alive()))
        monkeypatch.setattr(Trial, "_gate", watched)
        trial = judge._trial(Secret())
        trial.families(seat)
        trial.again(seat, None)
    assert {PERTURBED, TOUCHED, "task", "rare"} <= {error.family for error in trial.errors}
    inputs, results, little = MOVED // 2, 4 * MOVED // 2, 0.1 * MOVED
    assert max(held) <= LENT + inputs + little
    assert sorted(compared)[-5] <= LENT + results + little, (
        "only the four with other parameters keep the inputs, to tell frozen weights"
    )
    assert max(compared) <= LENT + inputs + results + little


@pytest.mark.slow
def test_a_base_leaves_where_the_twin_needs_its_memory(judge, monkeypatch):
    judge.baselines()
    base, mine = (
        Candidate(id=name, source=WEIGHTED.replace("class Model(", "class ModelNew(") + f"# {name}\n")
        for name in ("base", "mine")
    )
    assert {item.arm for item in judge.screen(mine, base).comparisons} == {"eager", "base"}
    monkeypatch.setattr(judge.device, "is_crowded", lambda moved: True)
    assert {item.arm for item in judge.screen(mine, base).comparisons} == {"eager"}
    assert judge._need._base is None, "its worker holds nothing any more"
