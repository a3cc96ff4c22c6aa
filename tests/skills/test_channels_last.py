"""The layout changes, the values don't."""

import torch
from torch import nn

from kernelskill.evaluation.worker.capture import capture
from kernelskill.program import Program, write
from kernelskill.records import Facts, Reference, Task, TensorSpec, Workload
from kernelskill.skills.library import load_recipe
from kernelskill.skills.sources import BUNDLED

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(8, 4, 3)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))))
"""


def spec(tensor):
    return TensorSpec(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        stride=tuple(tensor.stride()),
    )


def test_convolutions_run_in_channels_last_with_the_same_result():
    names = {}
    exec(SOURCE, names)
    model, x = names["Model"](), torch.randn(2, 3, 12, 12)
    graph = capture(model, (x,), {})
    graph["outputs_tree"] = {"tensor": 0}
    program = Program.model_validate({"graph": graph})
    recipe = load_recipe(BUNDLED / "channels_last" / "recipe.py")
    (edit,) = recipe.propose(program, Facts())
    changed = recipe.apply(program, edit)
    assert sum(node.op == "aten.clone.default" for node in changed.graph.nodes) == 4
    assert recipe.propose(changed, Facts()) == []
    task = Task(
        name="t", hash="0" * 64, origin="t",
        reference=Reference(loader="source", kind="module", entry="Model", source=SOURCE),
    )  # fmt: skip
    workload = Workload(
        inputs=(spec(x),), inputs_tree={"list": [{"tensor": 0}]}, outputs=(spec(model(x)),),
        outputs_tree={"tensor": 0}, state=(), eager_ms=1.0,
    )  # fmt: skip
    written = {}
    exec(write(changed, task, workload), written)
    rewritten = written["ModelNew"]()
    assert isinstance(rewritten, nn.Module)
    rewritten.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(rewritten(x), model(x), rtol=1e-4, atol=1e-5)
