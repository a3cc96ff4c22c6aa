"""The answer as a module: for modules, classes and functions, whether a candidate or stock has won."""

import pytest
import torch
from torch import nn

from kernelskill.deliver import Called, Delivered, Replayed, deliver
from kernelskill.records import (
    Attempt,
    Budget,
    Candidate,
    Outcome,
    Plan,
    Reference,
    Result,
    Run,
    StopReason,
    Task,
    TensorSpec,
    Workload,
)

REFERENCE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.full((n,), 2.0))

    def forward(self, x):
        return x * self.weight


def act(x):
    return x * 2.0
"""
WINNER = """

class ModelNew({base}):
    def forward(self, x):
        return x * {factor} + 0.0
"""


NAMES = {"__name__": "reference"}
exec(REFERENCE, NAMES)
Block, act = NAMES["Block"], NAMES["act"]


def run(kind, entry, winner=False, arm="eager"):
    reference = Reference(kind=kind, source=REFERENCE, entry=entry, loader="source")
    spec = TensorSpec.contiguous((4,), "float32")
    workload = Workload(
        inputs=(spec,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(spec,), outputs_tree={"tensor": 0},
        state=(), graph=None, eager_ms=0.1, findings=(), init_args={"list": [{"value": 4}]},
    )  # fmt: skip
    candidate = Candidate(id="c000", source="")
    attempt = Attempt(
        index=0, round=0, repair=0, plan=Plan(base_id="", edits=(), skill="s", reason="r"), candidate=candidate,
        evaluation=None, outcome=Outcome.SEED,
    )  # fmt: skip
    result = Result(
        stop=StopReason.ROUNDS, stop_detail="", winner_id="c000" if winner else "",
        winner_arm="candidate" if winner else arm,
    )  # fmt: skip
    return Run(
        id="r", created="2026-11-30T00:00:00+00:00", target="cpu", budget=Budget(), config={}, machine={},
        task=Task(name="t", origin="t.py", hash="0", reference=reference), workload=workload,
        attempts=(attempt,), result=result,
    )  # fmt: skip


CASES = [("module", "Block", Block(4)), ("module", "Block", Block), ("function", "act", act),
         ("module", "Block", None), ("function", "act", None)]  # fmt: skip


@pytest.mark.parametrize(("kind", "entry", "original"), CASES)
def test_a_winner_answers_and_steps_aside(kind, entry, original):
    base, factor = ("Block", "self.weight") if kind == "module" else ("nn.Module", "2.0")
    source = REFERENCE + WINNER.format(base=base, factor=factor)
    module = deliver(run(kind, entry, winner=True), source, original)
    assert isinstance(module, Delivered)
    x, other = torch.randn(4), torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(module(x), x * 2.0)
        with pytest.warns(UserWarning, match="outside what was proven"):
            torch.testing.assert_close(module(other), other * 2.0)
    assert sum(module.fallbacks.values()) == 1


@pytest.mark.parametrize(("kind", "entry", "original"), CASES)
def test_where_stock_is_the_answer_it_is_the_reference(kind, entry, original):
    source = f"{REFERENCE}\n\nModelNew = {entry}\n"
    module = deliver(run(kind, entry), source, original)
    x = torch.randn(4)
    torch.testing.assert_close(module(x), x * 2.0)
    assert isinstance(module, Block if isinstance(original, nn.Module | type) else nn.Module)
    assert isinstance(module, Called) == (kind == "function")


@pytest.mark.parametrize(("kind", "entry", "original"), CASES)
def test_a_graph_as_the_answer_is_the_reference_where_there_is_no_gpu(kind, entry, original):
    source = f"{REFERENCE}\n\nModelNew = {entry}\n"
    module = deliver(run(kind, entry, arm="graph"), source, original)
    assert isinstance(module, Replayed)
    for x in (torch.randn(4), torch.randn(3, 4)):
        with torch.no_grad():
            torch.testing.assert_close(module(x), x * 2.0)
        torch.testing.assert_close(module(x), x * 2.0)
    if isinstance(original, nn.Module):
        assert next(iter(module.parameters())) is original.weight


def test_a_compiled_answer_leaves_the_original_as_it_was():
    original = Block(4)
    module = deliver(run("module", "Block", arm="compile"), REFERENCE, original)
    assert module is not original
    assert original._compiled_call_impl is None
    assert next(iter(module.parameters())) is original.weight


def test_parameters_that_change_later_count_for_the_winner():
    original = Block(4)
    source = REFERENCE + WINNER.format(base="Block", factor="self.weight")
    module = deliver(run("module", "Block", winner=True), source, original)
    with torch.no_grad():
        original.weight.fill_(5.0)
        torch.testing.assert_close(module(torch.ones(4)), torch.full((4,), 5.0))
