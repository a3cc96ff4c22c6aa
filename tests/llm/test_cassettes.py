"""Sessions in which a capable model played all roles, replayed without a network; the judge runs for real."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernelskill.agents.llm.answers import DiagnosisAnswer, FactsAnswer, PlanAnswer
from kernelskill.agents.llm.reading import answer_of, source_of
from kernelskill.llm import read_calls
from kernelskill.records import Status

CASSETTES = Path(__file__).parent / "cassettes"
SESSIONS = sorted(path.parent for path in CASSETTES.glob("*/task.py"))
ON_GPU = sorted(path.parent for path in CASSETTES.glob("h200/*/task.py"))
FORGETFUL = sorted(path.parent for path in CASSETTES.glob("without_*/*/llm"))
"""The same tasks, played without one of the memories."""
FORGETFUL_ON_GPU = sorted(path.parent for path in CASSETTES.glob("h200_without_*/*/llm"))
"""Those of a GPU likewise; their kernels need one."""
ANSWERS = {"planner": PlanAnswer, "diagnoser": DiagnosisAnswer, "feature-reader": FactsAnswer}


@pytest.mark.parametrize(
    "session",
    [*SESSIONS, *ON_GPU, *FORGETFUL, *FORGETFUL_ON_GPU],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_every_recorded_reply_is_still_understood(session):
    calls = read_calls(session / "llm")
    assert calls
    for call in calls:
        if call.role in ANSWERS:
            answer_of(call.reply.text, ANSWERS[call.role])
        else:
            compile(source_of(call.reply.text), call.key, "exec")


@pytest.mark.parametrize(
    "session",
    [*SESSIONS, *ON_GPU, *FORGETFUL, *FORGETFUL_ON_GPU],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_recordings_hold_no_path_of_a_machine_and_no_key(session):
    text = "".join(path.read_text() for path in (session / "llm").glob("*.json"))
    assert not re.search(r"/(work|home|root)/|sk-[A-Za-z0-9]{8}|api[_-]?key\W+\w{12}", text, re.IGNORECASE)


CHECK = """
import sys
import torch
from importlib.util import module_from_spec, spec_from_file_location

def loaded(path):
    spec = spec_from_file_location("file", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

torch.manual_seed(0)
task, written = loaded(sys.argv[1]), loaded(sys.argv[2])
reference, new = task.Model(*task.get_init_inputs()), written.ModelNew(*task.get_init_inputs())
twin = task.Model(*task.get_init_inputs()).double()
for factor in (1.0, 30.0):
    for model in (new, twin):
        model.load_state_dict(reference.state_dict())
    whole = [factor * tensor for tensor in task.get_inputs()]
    for inputs in (whole, [tensor[:-1] for tensor in whole]):
        with torch.no_grad():
            exact = twin(*[tensor.double() for tensor in inputs])
            errors = [(model(*inputs) - exact).norm() / exact.norm() for model in (reference, new)]
        honest = 5e-7  # 512 products added one after the other in float
        assert errors[1] <= max(2 * errors[0], honest), (factor, [len(tensor) for tensor in inputs], errors)
"""


@pytest.mark.parametrize(
    "session",
    [*SESSIONS, *(pytest.param(path, marks=pytest.mark.long) for path in FORGETFUL)],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_what_was_written_last_is_as_accurate_as_eager(session, tmp_path):
    """Whole batches run its kernels, one row less what its guard does with other shapes."""
    files = [call for call in read_calls(session / "llm") if call.role not in ANSWERS]
    (tmp_path / "written.py").write_text(source_of(files[-1].reply.text))
    command = [
        sys.executable,
        "-c",
        CHECK,
        str(CASSETTES / session.name / "task.py"),
        str(tmp_path / "written.py"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "agents"),
    [
        pytest.param("mish_bell", "expert,llm", marks=pytest.mark.slow),
        pytest.param("rms_silu", "llm", marks=pytest.mark.long),
        *[
            pytest.param(session.name, "expert,llm", marks=pytest.mark.long)
            for session in SESSIONS
            if session.name not in {"mish_bell", "rms_silu"}
        ],
    ],
)
def test_a_session_replays_through_the_whole_program(name, agents, tmp_path):
    """No model is reachable here: what is written comes from the recording, what is judged is judged anew."""
    written = replayed(CASSETTES / name, agents, "cpu", tmp_path)
    assert written[-1]["evaluation"]["status"] == Status.PASSED


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.parametrize("session", ON_GPU, ids=lambda path: path.name)
def test_a_session_of_a_gpu_replays_there(session, tmp_path):
    """The kernels were written for an H200; other GPUs may lack what they use."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no GPU of compute capability 9.0")
    written = replayed(session, "expert,llm", "cuda", tmp_path)
    assert Status.PASSED in {item["evaluation"]["status"] for item in written if item["evaluation"]}


def replayed(session, agents, target, folder):
    """Attempts of the model in a run of a session's replies."""
    (folder / "kernelskill.toml").write_text(
        f'runs = "{folder / "runs"}"\ntarget = "{target}"\npromotion_sets = 2\n'
        f'[budget]\nseeds = 1\nrounds = {2 if target == "cuda" else 1}\nrepairs = 1\n[llm]\nreplay = "{session}"\n'
    )
    command = [sys.executable, "-m", "kernelskill", "optimize", str(session / "task.py"), "--agents", agents, "--no-evidence", "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    run = json.loads(done.stdout)
    assert run["result"]["stop"]
    calls = read_calls(next((folder / "runs").glob("*/llm")))
    assert calls
    assert all(call.replayed and call.spent.usd == 0 for call in calls)
    written = [item for item in run["attempts"] if item["plan"]["intent"]]
    assert written
    return written
