"""The recipe of recurrences: layers and loops on a processor, nothing on a GPU."""

from __future__ import annotations

import pytest
import torch
from skill_examples import facts_of
from torch import nn

from kernelskill.errors import ProgramError
from kernelskill.evaluation.worker.capture import capture
from kernelskill.program.program import Program
from kernelskill.records import Edit, Graph
from kernelskill.skills.library import load_recipe
from kernelskill.skills.sources import BUNDLED

RECIPE = load_recipe(BUNDLED / "persistent_recurrence" / "recipe.py")
CPU, GPU = facts_of(), facts_of({"target": "cuda"})


class Both(nn.Module):
    """A layer of the library, and a loop over a cell behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.cell = nn.LSTM(5, 6, 2), nn.GRUCell(6, 7)

    def forward(self, x, h):
        states = self.layer(x)[0]
        for part in states:
            h = self.cell(part, h)
        return h


@pytest.fixture(scope="module")
def program() -> Program:
    graph = capture(Both(), (torch.randn(4, 3, 5), torch.randn(3, 7)), {})
    return Program.from_graph(Graph.model_validate(graph))


def test_each_layer_and_each_loop_is_a_site(program):
    edits = RECIPE.propose(program, CPU)
    assert [edit.action for edit in edits] == ["layer", "loop"]
    assert "4 steps of 7 units" in edits[1].summary
    for edit in edits:
        program = RECIPE.apply(program, edit)
    assert [kernel.name for kernel in program.kernels] == ["lstm_steps", "lstm_steps_2", "recurrent_steps"]
    assert program.skills == ("persistent-recurrence",)
    assert RECIPE.propose(program, CPU) == []
    left = [node.op for node in program.graph.nodes if not node.op.startswith("kernel:")]
    assert left.count("aten.addmm.default") == 3
    assert "aten.sigmoid.default" not in left


def test_a_gpu_and_a_wrapped_program_are_left_alone(program):
    assert RECIPE.propose(program, GPU) == []
    assert RECIPE.propose(program.model_copy(update={"wrapper": "compile"}), CPU) == []


@pytest.mark.parametrize(("action", "site"), [("layer", "addmm"), ("loop", "lstm"), ("unroll", "lstm")])
def test_what_is_not_there_is_refused(program, action, site):
    with pytest.raises(ProgramError):
        RECIPE.apply(program, Edit(skill="persistent-recurrence", site=site, action=action))
