"""kill -9 of the whole tree, at several moments of one run: nothing is lost, repeated or left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * torch.exp(-x * x)


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
"""
PATIENCE_S = 240


def start(arguments, folder, log):
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "kernelskill", *arguments],
        cwd=folder,
        env={**environment, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,
    )


def recorded(runs):
    """Whole lines of the run's journal."""
    found = list(runs.glob("*/events.jsonl"))
    text = found[0].read_text() if found else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def descendants(parent):
    """All processes below one, by /proc."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, queue = [], [parent]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def wait_for(condition, what, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"waited {seconds} s for {what}")


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_killed_at_many_moments_ends_as_if_it_had_not_been(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "gate.py").write_text(TASK)
    tmp_path.chmod(0o755)
    runs = tmp_path / "runs"
    options = ["--runs", "runs", "--json"]
    with (tmp_path / "log").open("w") as log:
        process = start(["optimize", "gate.py", "--rounds", "1", *options], tmp_path, log)
        before = []
        for lines in (1, 2, 3, 5):
            wait_for(
                lambda count=lines, run=process: len(recorded(runs)) >= count or run.poll() is not None,
                f"{lines} recorded steps",
            )
            time.sleep(0.7)
            tree = descendants(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            wait_for(lambda pids=tree: all(is_gone(pid) for pid in pids), "the workers to die", 20)
            now = recorded(runs)
            assert now[: len(before)] == before, "a recorded step was lost or rewritten"
            before = now
            (run,) = runs.glob("*/run.json")
            process = start(["resume", run.parent.name, *options], tmp_path, log)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()[-2000:]
    after = recorded(runs)
    assert after[: len(before)] == before
    steps = [json.loads(line)["step"] for line in after]
    assert len(steps) == len(set(steps)), "a step was done twice"
    assert "result" in steps
    (run,) = runs.glob("*/run.json")
    assert json.loads(run.read_text())["result"]["stop"]
    assert (run.parent / "report.html").exists()
    leftovers = [path for path in (tmp_path / "tmp").glob("kernelskill-*-*")]
    assert leftovers == []
    assert [path for path in run.parent.rglob("*.partial")] == []
