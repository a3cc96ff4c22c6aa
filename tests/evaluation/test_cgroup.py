"""Limits on a worker's whole tree, where this machine lets us set them."""

import pytest
from real_workers import LIMITS, load, start

from kernelskill.evaluation import cgroup, processes
from kernelskill.evaluation.process import Limits, WorkerFailure

needs_groups = pytest.mark.skipif(
    "memory" not in cgroup.available(), reason="no control groups can be made here"
)
MANY = """
import os, time
for _ in range(24):
    if os.fork() == 0:
        hoard = bytearray(200 << 20)
        hoard[::4096] = bytes(len(hoard[::4096]))
        time.sleep(60)
        os._exit(0)
raise RuntimeError(f"ended by {os.waitstatus_to_exitcode(os.wait()[1])}")
"""


def test_no_members_make_no_group():
    assert cgroup.Group((), memory_bytes=1 << 30, processes=8).folders == []


@needs_groups
def test_a_worker_lives_in_groups_that_go_with_it(best):
    with start(best) as worker:
        worker.ready()
        folders = list(worker._group.folders)
        assert folders
        for pid in processes.living(worker.pid):
            inside = [
                folder for folder in folders if str(pid) in (folder / "cgroup.procs").read_text().split()
            ]
            assert inside == folders
    assert not any(folder.exists() for folder in folders)


@needs_groups
def test_many_processes_together_cannot_take_more_than_one_may(best):
    limits = Limits(memory_bytes=2 << 30, cpu_s=60, processes=64, file_bytes=32 << 20, start_s=60)
    with (
        start(best, limits=limits) as worker,
        pytest.raises(WorkerFailure, match=r"ended by -9|lack of memory"),
    ):
        load(worker, MANY, timeout_s=90)


@needs_groups
def test_what_killed_judges_left_is_removed():
    _, folder = cgroup.available()["memory"]
    dead = folder / f"{cgroup.PREFIX}999999999-0"
    dead.mkdir(exist_ok=True)
    cgroup.available.cache_clear()
    cgroup.available()
    assert not dead.exists()


def test_a_group_of_processes_that_have_ended_does_no_harm():
    group = cgroup.Group([2**22 - 1], memory_bytes=LIMITS.memory_bytes, processes=8)
    group.close()
    group.close()
    assert group.folders == []
