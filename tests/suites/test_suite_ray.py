"""The same work on a real Ray cluster of this machine; a lost worker is replaced, and each line comes once."""

import importlib.util
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from small_suites import DEGENERATE, broken_suite, write_suite
from suite_work import settings, started, worked

from kernelskill.errors import ConfigError, MissingExtraError, RunError
from kernelskill.records import TaskOutcome
from kernelskill.suites.ray_pool import RayPool, parse_takes

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'kernelskill[ray]'"
)


@pytest.fixture(scope="module")
def cluster():
    """Two workers at a time: a processor with two GPUs that are not there."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 2, "include_dashboard": False}
    )
    yield found.address
    found.shutdown()


@pytest.fixture
def pool(cluster):
    made = RayPool(cluster, {"GPU": 1})
    yield made
    made.close()


def busy_workers():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::work"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def kill_one_worker(killed, stop):
    while not killed and not stop.is_set():
        for pid in busy_workers()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        time.sleep(0.02)


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_a_suite_on_two_workers_one_of_which_is_killed(tmp_path, pool):
    suite = broken_suite(tmp_path / "suite", 5)
    write_suite(suite, {"6_Degenerate.py": DEGENERATE})
    folder = started(settings(tmp_path), suite)
    killed, stop = [], threading.Event()
    killer = threading.Thread(target=kill_one_worker, args=(killed, stop))
    killer.start()
    lines = worked(folder, pool)
    stop.set()
    killer.join()
    assert len(killed) == 1, "a worker was lost on the way"
    assert sorted(item.key for item in lines) == [
        *(f"{number}_Broken" for number in range(1, 6)),
        "6_Degenerate",
    ]
    ended = {item.key: item for item in lines}
    assert ended["6_Degenerate"].outcome is TaskOutcome.UNTESTABLE
    assert "constant-output" in ended["6_Degenerate"].reason
    assert all("missing dependency" in ended[f"{number}_Broken"].reason for number in range(1, 6))
    assert (folder.tasks / "6_Degenerate" / "events.jsonl").exists(), "what was recorded there is here"
    assert worked(folder, pool) == lines, "nothing is left to do"


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_lacks_what_a_task_takes_is_refused(cluster):
    with pytest.raises(RunError, match="no node of the Ray cluster has"):
        RayPool(cluster, {"GPU": 4})


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kernelskill\[ray\]'"):
        RayPool("auto", {"GPU": 1})


def test_what_a_task_takes():
    assert parse_takes(None, "cuda", 8) == {"GPU": 1.0}
    assert parse_takes(None, "cpu", 8) == {"CPU": 8.0}
    assert parse_takes("GPU=1, H200=0.5", "cuda", 8) == {"GPU": 1.0, "H200": 0.5}
    for text in ("GPU", "=1", "GPU=one"):
        with pytest.raises(ConfigError, match="NAME=NUMBER"):
            parse_takes(text, "cuda", 8)
