"""The commands as a person types them, from adding a suite to comparing two runs of it."""

import json
import os
import subprocess
import sys

import pytest
from small_suites import BROKEN, broken_suite


@pytest.fixture
def home(tmp_path):
    broken_suite(tmp_path / "suite", 3)
    return tmp_path


def kernelskill(home, *words, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "kernelskill", "suite", *words],
        cwd=home,
        env={
            **os.environ,
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_from_adding_to_comparing(home):
    assert "3 tasks" in kernelskill(home, "add", "mine", "--from", "suite").stdout
    listed = json.loads(kernelskill(home, "list", "mine", "--json").stdout)
    assert [task["key"] for task in listed["tasks"]] == ["1_Broken", "2_Broken", "3_Broken"]

    first = kernelskill(home, "run", "mine", "--id", "first", "--tasks", "1-2", "--no-evidence")
    assert "2/2 2_Broken failed" in first.stderr
    assert "missing dependency" in first.stdout
    assert {path.name for path in (home / "runs" / "first").iterdir()} >= {
        "score.json",
        "results.csv",
        "suite.html",
    }

    again = json.loads(
        kernelskill(home, "run", "mine", "--id", "first", "--tasks", "1-2", "--no-evidence", "--json").stdout
    )
    assert again["score"]["finished"] == 2
    assert len({item["session"] for item in again["results"]}) == 1, "nothing was done again"

    kernelskill(
        home,
        "run",
        "mine",
        "--id",
        "second",
        "--tasks",
        "2,3",
        "--no-evidence",
        "--precision",
        "fp32",
        "--json",
    )
    compared = kernelskill(home, "compare", "first", "second").stdout
    assert "1 tasks in both" in compared
    assert "precision: match then, fp32 now" in compared

    status = json.loads(kernelskill(home, "status", "second", "--json").stdout)
    assert (status["done"], status["left"]) == (2, 0)
    known = json.loads(kernelskill(home, "list", "--json").stdout)
    assert [run["id"] for run in known["runs"]] == ["first", "second"]


def test_other_settings_under_the_same_id_are_refused(home):
    kernelskill(home, "run", "suite", "--id", "one", "--tasks", "1", "--no-evidence")
    for changed in (
        ["--tasks", "2"],
        ["--tasks", "1", "--seconds", "5"],
        ["--tasks", "1", "--preset", "paper"],
    ):
        told = kernelskill(home, "run", "suite", "--id", "one", "--no-evidence", *changed, code=2).stderr
        assert "was begun with other settings" in told
    (home / "suite" / "1_Broken.py").write_text(f"{BROKEN}# edited\n")
    told = kernelskill(home, "run", "suite", "--id", "one", "--tasks", "1", "--no-evidence", code=2).stderr
    assert "text of 1_Broken" in told


def test_resume_takes_the_settings_of_the_run_and_can_retry_what_failed(home):
    kernelskill(home, "run", "suite", "--id", "one", "--rounds", "1", "--no-evidence")
    path = home / "runs" / "one" / "results.jsonl"
    kept = path.read_text().splitlines(keepends=True)
    path.write_text(kept[0] + kept[1][:40])
    told = json.loads(kernelskill(home, "resume", "one", "--json").stdout)
    assert [item["key"] for item in told["results"]] == ["1_Broken", "2_Broken", "3_Broken"]
    assert json.loads((home / "runs" / "one" / "suite.json").read_text())["settings"]["budget"]["rounds"] == 1
    text = (home / "suite" / "3_Broken.py").read_text()
    before = [item["at"] for item in told["results"]]
    retried = json.loads(kernelskill(home, "resume", "one", "--retry-failed", "--json").stdout)
    assert [item["at"] for item in retried["results"]] != before
    assert (home / "suite" / "3_Broken.py").read_text() == text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "nothing"], "no suite 'nothing'"),
        (["run", "suite", "--tasks", "9"], "has no such task"),
        (["run", "suite", "--preset", "none"], "unknown preset"),
        (["run", "suite", "--preset", "paper", "--precision", "match"], "contradicts"),
        (["run", "suite", "--jobs", "4"], "share the cores"),
        (["run", "suite", "--id", "a/b"], "--id 'a/b'"),
        (["run", "suite", "--tolerance", "loose"], "tolerance"),
        (["score", "suite", "--candidates", "nowhere"], "there is no folder"),
        (["score", "gone"], "no suite run 'gone'"),
        (["resume", "last"], "no suite run 'last'"),
        (["audit", "suite", "--gpus", "0", "--target", "hip"], "AMD GPUs are not supported"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(home, words, told):
    lines = kernelskill(home, *words, code=2).stderr.strip().splitlines()
    assert told in lines[-1]
    assert not any("Traceback" in line for line in lines)


def test_errors_are_json_too(home):
    told = json.loads(kernelskill(home, "run", "nothing", "--json", code=2).stdout)
    assert told["error"] == "TaskError"


def test_kernels_that_fit_no_task_are_named(home):
    (home / "kernels").mkdir()
    for name in ("1_Broken.py", "notes.py"):
        (home / "kernels" / name).write_text("class ModelNew: ...\n")
    done = kernelskill(home, "score", "suite", "--candidates", "kernels", "--id", "theirs")
    assert "notes.py fits no task of suite, left out" in done.stderr
    assert "missing dependency" in done.stdout
    whole = json.loads((home / "runs" / "theirs" / "score.json").read_text())["groups"][0]
    assert (whole["tasks"], whole["failed"]) == (1, 1)
