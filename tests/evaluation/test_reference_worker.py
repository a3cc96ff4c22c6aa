"""The reference side through real, confined workers: from what a person points at to inputs, results and the twin."""

import pytest
import torch
from real_workers import LIMITS
from user_code import Scaled

from kernelskill.errors import TaskError, WorkerError
from kernelskill.evaluation.reference import ReferenceSide, describe, load_arm, reference_worker
from kernelskill.tasks import load_task

FILE = """
import math, sys
import torch
import torch.nn as nn
from neighbour import SCALE

class Model(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.fc = nn.Linear(6, width, bias=bias)
        self.norm = nn.BatchNorm1d(width)
    def forward(self, x, ids, mask, s):
        y = self.norm(self.fc(x)) * SCALE * s
        y = y.masked_fill(mask, 0.0)
        return {"y": y.float(), "picked": y.gather(1, ids), "best": y.argmax(1), "loss": y.sum()}

def get_inputs():
    return [torch.randn(6, 8).t(), torch.randint(0, 5, (8, 2)), torch.rand(5).expand(8, 5) > 0.5, 1.5]

def get_init_inputs():
    return [[5], {"bias": False}]

if __name__ == "__main__":
    sys.exit("ran")
"""


def side_of(worker, workload, count=3):
    return ReferenceSide(worker, workload, count, 60.0)


@pytest.fixture
def opened(best):
    made = []

    def start(task, role="reference"):
        worker = reference_worker(role, task, best, LIMITS, 2)
        made.append(worker)
        return worker

    yield start
    for worker in made:
        worker.close()


@pytest.fixture
def file_task(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "neighbour.py").write_text("SCALE = 2.0\n")
    (tmp_path / "task.py").write_text(FILE)
    return load_task(tmp_path / "task.py")


def test_a_file_with_neighbours_mixed_inputs_and_several_results(opened, file_task):
    workload = describe(opened(file_task), file_task, 11)
    assert [item.dtype for item in workload.inputs] == ["float32", "int64", "bool"]
    assert workload.inputs[0].stride == (1, 8)
    assert [item.dtype for item in workload.outputs] == ["float32", "float32", "int64", "float32"]
    assert workload.init_args == {"dict": {"width": {"value": 5}, "bias": {"value": False}}}
    assert workload.findings == ()
    assert workload.capture_error == ""
    assert set(workload.updated_state) == {
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    }

    worker = opened(file_task)
    load_arm(worker, file_task, "eager")
    side = side_of(worker, workload)
    first, same, other = side.draw([1, 2, 3]), side.draw([1, 2, 3]), side.draw([4, 5, 6])
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    eager, twin = side.eager(first, 3), side.twin(first, 3)
    for one, exact in zip(eager, twin, strict=True):
        assert [item.dtype for item in exact] == [torch.float64, torch.float64, torch.int64, torch.float64]
        assert torch.equal(one[2], exact[2])
        assert 0 < (one[0] - exact[0]).abs().max() < 1e-5
    side.close()


def test_the_twin_does_not_move_the_state(opened, file_task):
    workload = describe(opened(file_task), file_task, 11)
    worker = opened(file_task)
    load_arm(worker, file_task, "eager")
    side = side_of(worker, workload)
    batch = side.draw([1, 2, 3])
    once, twice = side.twin(batch, 3), side.twin(batch, 3)
    assert all(
        torch.equal(a, b) for one, two in zip(once, twice, strict=True) for a, b in zip(one, two, strict=True)
    )
    assert side.initial["norm.num_batches_tracked"].item() == 0

    assert side.state_after(batch, 2)["norm.num_batches_tracked"].item() == 2
    side.close()


def test_a_python_object_with_example_inputs(opened, tmp_path):
    model = Scaled()
    mask = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf"))
    tmp_path.chmod(0o755)
    task = load_task(model, inputs=[torch.randn(6, 6) * 2, mask], storage=tmp_path)
    workload = describe(opened(task), task, 3)
    assert workload.findings == ()
    assert [item.path for item in workload.state] == ["weight"]
    worker = opened(task)
    load_arm(worker, task, "eager")
    side = side_of(worker, workload)
    assert torch.equal(side.initial["weight"], model.weight.detach())
    views = side.layout.views(side.draw([1, 2, 3]), 1)
    assert torch.equal(views[1], mask)
    with torch.no_grad():
        due = model(*views)
    assert torch.allclose(side.eager(side.draw([1, 2, 3]), 3)[1][0], due, atol=1e-6)
    side.close()


def test_fresh_inputs_from_a_callable(opened, tmp_path):
    tmp_path.chmod(0o755)
    task = load_task(
        lambda x, k: x * k, inputs=lambda: {"k": torch.randn(3), "x": torch.randn(2, 3)}, storage=tmp_path
    )
    workload = describe(opened(task), task, 3)
    assert workload.inputs_tree == {"dict": {"k": {"tensor": 0}, "x": {"tensor": 1}}}
    assert [item.shape for item in workload.inputs] == [(3,), (2, 3)]
    assert workload.findings == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = torch.rand(3, device='cuda')", "the task needs cuda; this is the cpu target"),
        ("raise SystemExit(0)", "loading the reference: SystemExit: 0"),
        ("import os; os._exit(0)", ""),
        ("from gone import away", "missing dependency gone (pip install gone)"),
    ],
)
def test_a_reference_that_does_not_load_is_one_line(opened, tmp_path, text, line):
    path = tmp_path / "task.py"
    path.write_text(
        f"import torch\nif True:\n    {text}\nclass Model(torch.nn.Module): ...\ndef get_inputs(): return []\n"
    )
    task = load_task(path)
    with pytest.raises(TaskError) as caught:
        describe(opened(task), task, 1)
    assert str(caught.value).startswith(f"task: {line}")
    assert "\n" not in str(caught.value)


def test_shapes_that_change_later_are_refused(opened, tmp_path):
    path = tmp_path / "task.py"
    path.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 2\n"
        "SIZES = [3, 3, 3, 3]\ndef get_inputs():\n    return [torch.rand(SIZES.pop() if SIZES else 5)]\n"
    )
    task = load_task(path)
    workload = describe(opened(task), task, 1)
    worker = opened(task)
    load_arm(worker, task, "eager")
    side = side_of(worker, workload, count=6)
    with pytest.raises(WorkerError, match=r"changed from \[3\]"):
        side.draw([1, 2, 3, 4, 5])
    side.close()
