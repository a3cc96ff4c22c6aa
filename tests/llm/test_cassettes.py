"""Sessions in which a capable model played all roles, replayed without a network; the judge runs for real."""

import json
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
ANSWERS = {"planner": PlanAnswer, "diagnoser": DiagnosisAnswer, "feature-reader": FactsAnswer}


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
def test_every_recorded_reply_is_still_understood(session):
    calls = read_calls(session / "llm")
    assert calls
    for call in calls:
        if call.role in ANSWERS:
            answer_of(call.reply.text, ANSWERS[call.role])
        else:
            compile(source_of(call.reply.text), call.key, "exec")


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
def test_recordings_hold_no_path_of_a_machine_and_no_key(session):
    text = "".join(path.read_text() for path in (session / "llm").glob("*.json"))
    assert not re.search(r"/(work|home|root)/|sk-[A-Za-z0-9]{8}|api[_-]?key\W+\w{12}", text, re.IGNORECASE)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "agents"), [("rms_silu", "llm"), ("running_mean", "expert,llm")])
def test_a_session_replays_through_the_whole_program(name, agents, tmp_path):
    """No model is reachable here: what is written comes from the recording, what is judged is judged anew."""
    session = CASSETTES / name
    (tmp_path / "kernelskill.toml").write_text(
        f'runs = "{tmp_path / "runs"}"\npromotion_sets = 2\n[budget]\nseeds = 1\nrounds = 1\nrepairs = 1\n'
        f'[llm]\nreplay = "{session}"\n'
    )
    command = [sys.executable, "-m", "kernelskill", "optimize", str(session / "task.py"), "--agents", agents, "--no-evidence", "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    run = json.loads(done.stdout)
    assert run["result"]["stop"]
    calls = read_calls(next((tmp_path / "runs").glob("*/llm")))
    assert calls
    assert all(call.replayed and call.spent.usd == 0 for call in calls)
    written = [item for item in run["attempts"] if item["plan"]["intent"]]
    assert written
    assert written[-1]["evaluation"]["status"] == Status.PASSED
