"""kill -9 of the whole tree at random moments of a suite: every task ends with one line, and nothing is left behind."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_suites import BROKEN, DEGENERATE, GATE, write_suite

KILLS = 3
PATIENCE_S = 600


def suite_of_six(folder):
    files = {f"{number}_Broken.py": f"{BROKEN}# {number}\n" for number in range(1, 7)}
    return write_suite(folder, {**files, "2_Broken.py": DEGENERATE, "4_Broken.py": GATE})


def start(arguments, folder, log):
    return subprocess.Popen(
        [sys.executable, "-m", "kernelskill", "suite", *arguments, "--runs", "runs"],
        cwd=folder,
        env={
            **os.environ,
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMPDIR": str(folder / "tmp"),
        },
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,
    )


def lines(folder):
    path = folder / "runs" / "six" / "results.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def processes_in(folder):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_suite_killed_at_random_moments_gives_each_result_once(tmp_path):
    (tmp_path / "tmp").mkdir()
    tmp_path.chmod(0o755)
    suite = suite_of_six(tmp_path / "suite")
    words = ["run", str(suite), "--id", "six", "--rounds", "0", "--seconds", "30", "--no-evidence"]
    rng = random.Random()
    # Once while the cheap ones go by, once inside the degenerate one, once inside the one that is made faster.
    moments = [
        (0, rng.uniform(0.5, 4.0)),
        (1, rng.uniform(1.0, 6.0)),
        (3, rng.uniform(5.0, 30.0)),
    ]
    before = []
    with (tmp_path / "log").open("w") as log:
        for done, pause in moments[:KILLS]:
            process = start(words, tmp_path, log)
            wait_for(
                lambda count=done, run=process: len(lines(tmp_path)) >= count or run.poll() is not None,
                f"{done} lines",
            )
            time.sleep(pause)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            wait_for(lambda: not processes_in(tmp_path), "the tasks to die")
            now = lines(tmp_path)
            assert now[: len(before)] == before, (
                f"a line was lost or rewritten; killed after {done} lines and {pause} s"
            )
            before = now
        process = start(words, tmp_path, log)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()[-3000:]
    after = lines(tmp_path)
    assert after[: len(before)] == before
    assert sorted(item["key"] for item in after) == sorted(path.stem for path in suite.glob("*.py")), (
        "each once"
    )
    ended = {item["key"]: item for item in after}
    assert ended["2_Broken"]["outcome"] == "untestable"
    assert ended["4_Broken"]["outcome"] in ("faster", "verified", "stock"), ended["4_Broken"]["reason"]
    steps = [
        json.loads(line)["step"]
        for line in next((tmp_path / "runs").rglob("events.jsonl")).read_text().splitlines()
    ]
    assert len(steps) == len(set(steps)), "no step of a task was done twice"
    folder = tmp_path / "runs" / "six"
    assert all((folder / name).stat().st_size for name in ("score.json", "results.csv", "suite.html"))
    assert list(folder.rglob("*.partial")) == []
    changed = start([*words[:-1], "--precision", "fp32"], tmp_path, subprocess.PIPE)
    told = changed.communicate(timeout=PATIENCE_S)[1].decode()
    assert changed.returncode == 2
    assert "precision: match then, fp32 now" in told
