"""A language model that answers by a script, and a scene on a small task for it to play in."""

from kernelskill.agents.llm import Scene
from kernelskill.memory import RunMemory
from kernelskill.records import Ceilings, Reference, Task, TensorSpec, Workload
from kernelskill.records.model import Finish, ModelSettings, Reply
from kernelskill.skills import ExpertLibrary

SOURCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * torch.exp(-x * x)


def get_inputs():
    return [torch.randn(64, 1024)]
"""
SPEC = TensorSpec.contiguous((64, 1024))
TASK = Task(
    name="bell", hash="ab" * 32, origin="bell.py",
    reference=Reference(loader="source", kind="module", entry="Model", source=SOURCE, inputs_entry="get_inputs"),
)  # fmt: skip
WORKLOAD = Workload(
    inputs=(SPEC,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(SPEC,), outputs_tree={"tensor": 0}, state=(),
    eager_ms=0.2,
)  # fmt: skip
CEILINGS = Ceilings(
    device="a processor", threads=2, bandwidth_gb_per_s={"32768": 300.0, "268435456": 20.0}, fp32_gflops=300.0,
    exp_gops=10.0, parallel_us=10.0, call_us=1.0, operator_us=3.0, measured_on="2026-01-01",
)  # fmt: skip


LIBRARY = ExpertLibrary(None)


class ScriptedModel:
    """Implements `protocols.LanguageModel`; a script entry is a text, a Reply, or an exception."""

    def __init__(self, *turns):
        self.turns = list(turns)
        self.calls = []
        self.usd_a_call = None

    def reply(self, role, key, messages, max_tokens):
        self.calls.append((role, key, tuple(messages), max_tokens))
        assert self.turns, f"asked once too often: {key}"
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, Reply) else Reply(text=turn, finish=Finish.STOP, model="m")

    def author(self, role):
        return "test:scripted"

    def expected_usd(self, role, prompt_chars, max_tokens):
        return self.usd_a_call


def cut(text="half"):
    return Reply(text=text, finish=Finish.LENGTH, model="m")


def scene(*turns, target="cpu", repairs=2, **settings):
    return Scene(
        model=ScriptedModel(*turns), settings=ModelSettings(max_output_tokens=1000, **settings), task=TASK,
        workload=WORKLOAD, ceilings=CEILINGS, shelf=LIBRARY, memory=RunMemory(), target=target,
        machine={"processor": "a processor", "cache_l2": "2048K"}, repairs=repairs,
    )  # fmt: skip


def fenced(source, language="python"):
    return f"Here it is.\n```{language}\n{source}\n```\n"
