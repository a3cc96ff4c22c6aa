"""The answer's text, where best stock is the answer: it runs, and computes what the reference does."""

import pytest
import torch

from kernelskill.answer import RECIPES, best_source
from kernelskill.errors import RunError
from kernelskill.records import Budget, Reference, Result, Run, StopReason, Task

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.relu(x) * self.slope
"""


def run(arm, kind="module", source=REFERENCE, entry="Model"):
    reference = Reference(kind=kind, source=source, entry=entry, loader="source")
    task = Task(name="t", origin="t.py", hash="0", reference=reference)
    result = (
        Result(stop=StopReason.NO_SEED, stop_detail="none", winner_id="", winner_arm=arm) if arm else None
    )
    return Run(
        id="r", created="2026-11-30T00:00:00+00:00", task=task, target="cpu", budget=Budget(), config={},
        machine={}, result=result,
    )  # fmt: skip


@pytest.mark.parametrize("arm", ["eager", "compile"])
def test_the_answer_runs_as_the_reference(arm):
    names = {"__name__": "answer"}
    exec(best_source(run(arm)), names)
    x = torch.randn(4, 8)
    model = names["ModelNew"](3.0)
    if arm == "compile":
        assert model._compiled_call_impl is not None
        model._compiled_call_impl = None  # the compiler itself is not under test
    torch.testing.assert_close(model(x), torch.relu(x) * 3.0)


@pytest.mark.parametrize("arm", [*RECIPES, "eager"])
@pytest.mark.parametrize(("kind", "entry"), [("module", "Model"), ("function", "step")])
def test_every_stock_arm_has_a_text_that_compiles(arm, kind, entry):
    source = REFERENCE if kind == "module" else "def step(x):\n    return x + 1\n"
    text = best_source(run(arm, kind, source, entry))
    compile(text, "best.py", "exec")
    assert text.startswith(source.rstrip())
    assert "ModelNew" in text
    assert RECIPES.get(arm, "as it is") in text


def test_without_the_references_text_the_recipe_is_named():
    assert "under a CUDA graph" in best_source(run("graph", source="", entry=""))


def test_a_run_that_has_not_ended_has_no_answer():
    with pytest.raises(RunError, match="kernelskill resume r"):
        best_source(run(""))
