"""A task from words: proven by its own tests in a sandbox, shown, agreed to."""

import io
import sys

import pytest

from kernelskill.agents.llm.task_writer import tests_of as names_of_tests
from kernelskill.agents.llm.task_writer import with_checks, write_task
from kernelskill.cli.describe import described
from kernelskill.config import load_config
from kernelskill.errors import ConfigError, ModelError
from kernelskill.records.model import Finish, ModelSettings, Reply

TASK = '''\
import torch
from torch import nn


class Model(nn.Module):
    """Softmax of each row of x, (rows, width) float32, at a temperature of its own."""

    def forward(self, x, temperature):
        return torch.softmax(x / temperature[:, None], dim=-1)


def get_inputs():
    return [torch.randn(64, 512), torch.rand(64) + 0.5]


def get_init_inputs():
    return []


def test_by_hand():
    found = Model()(torch.tensor([[0.0, 0.0]]), torch.tensor([3.0]))
    assert torch.allclose(found, torch.tensor([[0.5, 0.5]]))


def test_rows_sum_to_one():
    assert torch.allclose(Model()(*get_inputs()).sum(-1), torch.ones(64))


def test_one_column():
    assert torch.equal(Model()(torch.zeros(3, 1), torch.ones(3)), torch.ones(3, 1))
'''
WRONG = TASK.replace("[[0.5, 0.5]]", "[[0.4, 0.6]]")


def fenced(source):
    return f"```python\n{source}```"


class Scripted:
    def __init__(self, *texts):
        self.texts, self.prompts = list(texts), []

    def reply(self, role, key, messages, max_tokens):
        self.prompts.append(messages[-1].text)
        return Reply(text=self.texts.pop(0), finish=Finish.STOP, model="m")

    def author(self, role):
        return "test:scripted"


def written(model, prove=lambda source: ""):
    return write_task(model, ModelSettings(), "softmax with a temperature a row", "cpu", prove)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (TASK.replace("def get_inputs", "def inputs"), "does not define get_inputs"),
        (TASK.replace("def test_one_column", "def check"), "has 2 tests; 3 are needed"),
        ("import numpy\n" + TASK, "imports numpy"),
        (TASK.replace("class Model", "class Net"), "no class Model"),
    ],
)
def test_what_the_text_lacks_is_told_before_anything_runs(changed, said):
    model = Scripted(fenced(changed), fenced(TASK))
    assert written(model) == TASK
    assert said in model.prompts[1]


def test_a_fault_found_by_running_is_told():
    model = Scripted(fenced(WRONG), fenced(TASK))
    assert written(model, lambda source: "test_by_hand fails" if source == WRONG else "") == TASK
    assert "test_by_hand fails" in model.prompts[1]


def test_bounded_tries_then_a_clear_end():
    with pytest.raises(ModelError, match="task-writer"):
        written(Scripted(*["no idea"] * 3))


def test_the_checks_run_every_test_and_name_the_one_that_fails():
    assert names_of_tests(TASK) == ("test_by_hand", "test_rows_sum_to_one", "test_one_column")
    torch = pytest.importorskip("torch")
    space = {"__name__": "task"}
    exec(with_checks(TASK), space)
    assert torch.equal(space["Checks"]()(torch.zeros(2)), torch.ones(2))
    exec(with_checks(WRONG), space)
    with pytest.raises(AssertionError, match="test_by_hand fails: AssertionError"):
        space["Checks"]()(torch.zeros(2))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_description_becomes_a_proven_file(tmp_path, monkeypatch, capsys):
    """The first answer has a test that fails when it runs in the sandbox; the second is right."""
    for name, text in (("1", WRONG), ("2", TASK)):
        (tmp_path / name).write_text(fenced(text))
    program = tmp_path / "model.py"
    program.write_text(
        "import pathlib, sys\nhere = pathlib.Path(sys.argv[1])\nasked = here / 'asked'\n"
        "with asked.open('a') as file: file.write(sys.stdin.read() + '\\0')\n"
        "print((here / str(asked.read_text().count('\\0'))).read_text())\n"
    )
    settings = load_config(
        runs=tmp_path / "runs", llm={"model": f"command:{sys.executable} {program} {tmp_path}"}
    )
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(ConfigError, match="--yes"):
        described("softmax with a temperature a row", settings, agreed=False)
    asked = (tmp_path / "asked").read_text()
    assert "test_by_hand fails" in asked
    file = described("softmax with a temperature a row", settings, agreed=True)
    assert file.read_text() == TASK
    assert (tmp_path / "asked").read_text() == asked, "a task that was paid for was asked for again"
    assert "class Model" in capsys.readouterr().err
