"""Workers are forked from a process that imported torch: confined all the same, and told apart from it in nothing."""

import ast
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from real_workers import load, start

from kernelskill.evaluation import nursery, processes
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.sandbox import Sandbox

SAME = "def ModelNew(x): return x\n"


@pytest.fixture
def forking():
    """A sandbox whose workers are forked."""
    sandbox = Sandbox.probe()
    if sandbox.way == "bubblewrap":
        pytest.skip("bubblewrap starts programs only")
    return sandbox


def test_the_second_worker_starts_in_a_fraction_of_a_fresh_import(forking):
    start(forking).close()

    def seconds():
        began = time.perf_counter()
        with start(forking) as worker:
            worker.ready()
        return time.perf_counter() - began

    forked = min(seconds() for _ in range(3))
    began = time.perf_counter()
    nursery.Nursery(dict(os.environ)).close()
    assert forked < 0.5 * (time.perf_counter() - began)


def test_a_worker_holds_neither_the_servers_socket_nor_its_environment(forking):
    source = """
import os
def ModelNew(x): return x
seen = sorted(os.listdir("/proc/self/fd")), dict(os.environ), os.getcwd()
raise RuntimeError(seen)
"""
    with start(forking) as worker:
        with pytest.raises(WorkerFailure) as told:
            load(worker, source)
        line = next(line for line in told.value.detail.splitlines() if "RuntimeError: (" in line)
    fds, env, folder = ast.literal_eval(line[line.index("(") :])
    assert len(fds) <= 6  # standard streams, the judge's channel, the listing itself
    assert env["HOME"] == env["TMPDIR"] == folder
    assert not {"SHELL", "PYTHONPATH", "SSH_AUTH_SOCK", "PYTEST_CURRENT_TEST"} & set(env)


def test_two_workers_share_no_process_and_end_alone(forking):
    with start(forking) as first, start(forking) as second:
        load(first, SAME)
        load(second, SAME)
        assert not set(processes.living(first.pid)) & set(processes.living(second.pid))
        first.close()
        assert second.alive
        assert second.call("ping", timeout_s=5) is not None


def test_a_lost_server_takes_its_workers_along_and_the_next_start_has_a_new_one(forking):
    worker = start(forking)
    worker.ready()
    pids = processes.living(worker.pid)
    for server in list(nursery._servers.values()):
        server._process.kill()
        server._process.wait()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not worker.alive
    worker.close()
    with start(forking) as another:
        another.ready()
        assert another.alive


def test_a_judge_that_is_ended_leaves_no_stopped_worker(forking, tmp_path):
    script = f"""
    import sys, time
    sys.path[:0] = {sys.path!r}
    from kernelskill.evaluation import processes
    from kernelskill.evaluation.sandbox import Sandbox
    from real_workers import start
    worker = start(Sandbox.probe())
    worker.ready()
    pids = processes.living(worker.pid)
    worker.freeze()
    print(*pids, flush=True)
    time.sleep(60)
    """
    judge = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    pids = judge.stdout.readline().split()
    judge.terminate()
    judge.wait()
    judge.stdout.close()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(pids) >= 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
