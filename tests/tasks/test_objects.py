"""Python objects as tasks, and the laws fitted to their example inputs."""

import json

import pytest
import torch
from torch import nn

from kernelskill.errors import TaskError
from kernelskill.evaluation.worker.laws import from_law
from kernelskill.records import Task
from kernelskill.tasks import load_task
from kernelskill.tasks.laws import law_of

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x, *, scale=1.0, mask=None):
        return self.fc(x) * scale


def work(x, y):
    return x + y


@pytest.mark.parametrize(
    ("target", "inputs", "kind", "name"),
    [
        (Net(), torch.randn(2, 4), "module", "Net"),
        (Net, [torch.randn(2, 4)], "module", "Net"),
        (work, (torch.randn(3), torch.randn(3)), "function", "work"),
        (lambda x: x * 2, {"x": torch.randn(3)}, "function", "lambda"),
        (nn.Sequential(nn.ReLU(), Net()), torch.randn(2, 4), "module", "Sequential"),
        (work, lambda: [torch.randn(3), torch.randn(3)], "function", "work"),
    ],
)
def test_every_kind_of_object(tmp_path, target, inputs, kind, name):
    task = load_task(target, inputs=inputs, storage=tmp_path)
    assert (task.reference.loader, task.reference.kind, task.name) == ("pickle", kind, name)
    assert (tmp_path / "reference.pkl").exists()
    assert bool(task.reference.laws) is not callable(inputs)
    assert Task.model_validate_json(json.dumps(json.loads(task.model_dump_json()), allow_nan=False)) == task


def test_the_weights_belong_to_the_task(tmp_path):
    hashes = {load_task(Net(), inputs=torch.randn(2, 4), storage=tmp_path).hash for _ in range(2)}
    assert len(hashes) == 2


def test_arguments_and_keyword_arguments_together(tmp_path):
    inputs = [[torch.randn(64, 4)], {"scale": 0.5, "mask": torch.rand(4) > 0.5}]
    reference = load_task(Net(), inputs=inputs, storage=tmp_path).reference
    assert reference.inputs_tree == {
        "dict": {"x": {"tensor": 0}, "scale": {"value": 0.5}, "mask": {"tensor": 1}}
    }
    assert [law.kind for law in reference.laws] == ["normal", "boolean"]


def test_modules_of_the_users_own_folders_are_found_again(tmp_path):
    reference = load_task(nn.Sequential(Net()), inputs=torch.randn(2, 4), storage=tmp_path).reference
    assert reference.search_path == (str(__import__("pathlib").Path(__file__).parent),)
    assert (
        load_task(nn.Sequential(nn.ReLU()), inputs=torch.randn(2), storage=tmp_path).reference.search_path
        == ()
    )


@pytest.mark.parametrize(
    ("target", "inputs", "line"),
    [
        (Net(), None, "inputs= is missing"),
        (3, torch.ones(2), "a int is neither a module"),
        (work, 3, "inputs= is a int"),
        (work, [1, 2], "holds no tensor"),
        (work, [torch.ones(2), object()], "holds a object"),
        (work, [torch.ones(2).to_sparse(), 1], "only plain dense tensors"),
        (work, [torch.ones(2, device="meta"), 1], "meta tensor"),
        (lambda x, lock=__import__("threading").Lock(): x, torch.ones(2), "cannot be pickled"),
    ],
)
def test_what_cannot_be_a_task_is_told_in_one_line(tmp_path, target, inputs, line):
    with pytest.raises(TaskError) as caught:
        load_task(target, inputs=inputs, storage=tmp_path)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


R = torch.randn(64, 8)


@pytest.mark.parametrize(
    ("example", "kind"),
    [
        (R, "normal"),
        (R * 3 + 50, "uniform"),
        (torch.rand(64, 8), "uniform"),
        (torch.rand(64, 8) * 6 - 3, "uniform"),
        (R.exp(), "uniform"),
        (-R.abs(), "uniform"),
        (R.bfloat16(), "normal"),
        (R.double(), "normal"),
        (torch.complex(R, R), "normal"),
        (R > 1, "boolean"),
        ((R > 1).float(), "boolean"),
        (torch.zeros(5), "constant"),
        (torch.tensor(0.7), "uniform"),
        (torch.tensor(-20.0), "uniform"),
        (torch.randint(3, 90, (64,)), "integer"),
        (torch.tensor(7), "integer"),
        (torch.arange(9), "fixed"),
        (torch.randperm(9), "fixed"),
        (torch.tensor([0, 3, 3, 9, 12]), "fixed"),
        (torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")), "fixed"),
        (torch.empty(0, 3), "constant"),
    ],
    ids=str,
)
def test_fresh_values_are_like_the_example(example, kind):
    law = law_of(example)
    assert law.kind == kind
    if kind == "fixed":
        return
    fresh = from_law(law.model_dump(mode="json"))
    assert (fresh.shape, fresh.dtype, fresh.stride()) == (example.shape, example.dtype, example.stride())
    if not example.numel() or example.is_complex():
        return
    low, high = example.double().min(), example.double().max()
    slack = (
        0.6 * abs(high)
        if example.numel() == 1
        else 0.02 * (high - low)
        if kind != "normal"
        else 3 * (high - low)
    )
    assert fresh.double().min() >= low - slack
    assert fresh.double().max() <= high + slack
    if example.numel() > 30 and example.is_floating_point():
        assert 0.5 < fresh.double().std() / example.double().std() < (2 if law.kind != "uniform" else 9)
    if kind == "uniform" and low >= 0:
        assert fresh.min() >= 0
    if kind == "boolean":
        assert abs(fresh.double().mean() - example.double().mean()) < 0.1


@pytest.mark.parametrize(
    "example",
    [R.t(), R[:, ::2], R[:1].expand(64, 8), R.view(4, 4, 4, 8).to(memory_format=torch.channels_last), R.unfold(0, 4, 1)],
    ids=["transposed", "strided", "expanded", "channels-last", "overlapping"],
)  # fmt: skip
def test_the_layout_of_the_example_is_kept(example):
    law = law_of(example)
    fresh = from_law(law.model_dump(mode="json"))
    assert fresh.stride() == example.stride()
    assert not torch.equal(fresh, example)
