"""Each task has cores of its own, and so have all processes that it starts."""

import os
import subprocess
import sys

import pytest
from small_suites import broken_suite
from suite_work import settings, started, worked

from kernelskill.suites.cores import Cores, confined_to, own_cores
from kernelskill.suites.pool import LocalPool, Seat

TELL = "import os; print(sorted(os.sched_getaffinity(0)))"
TELL_OF_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TELL!r}])"


def told(code):
    return eval(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def test_shares_are_disjoint_while_cores_last():
    cores = Cores(range(7), 2)
    assert cores.disjoint == 3
    shares = [cores.take() for _ in range(3)]
    assert len({core for share in shares for core in share}) == 6
    assert cores.take() in shares, "more tasks than shares: the least taken is shared"
    cores.give_back(shares[1])
    assert cores.take() == shares[1]


def test_a_share_is_no_larger_than_the_machine():
    assert Cores([3], 4).take() == (3,)


def test_neighbours_are_hardware_threads_of_one_core(monkeypatch, tmp_path):
    """Numbered as Linux does: 0 and 2 are one core, 1 and 3 the other."""
    for number in range(4):
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "core_id").write_text(f"{number % 2}\n")
        (folder / "physical_package_id").write_text("0\n")
    monkeypatch.setattr("kernelskill.suites.cores.TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert own_cores() == [0, 2, 1, 3]
    monkeypatch.setattr("kernelskill.suites.cores.TOPOLOGY", tmp_path / "none")
    assert own_cores() == [0, 1, 2, 3]


def test_whatever_is_started_inside_stays_on_its_cores():
    before = os.sched_getaffinity(0)
    core = max(before)
    with confined_to([core]):
        assert told(TELL) == [core]
        assert told(TELL_OF_A_CHILD) == [core]
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_tasks_side_by_side_have_cores_of_their_own(tmp_path):
    folder = started(settings(tmp_path), broken_suite(tmp_path / "suite", 4))
    seat, cores = Seat(places=2), Cores(own_cores(), 1)
    together = []
    seat.running = Watched(together)
    assert len(worked(folder, LocalPool([seat], cores))) == 4
    assert len(together) == 4
    assert all(len(set(shares)) == len(shares) for shares in together), "never two on one core"
    assert cores.take() != cores.take(), "all were given back"


class Watched(list):
    """Tasks on a seat; keeps which cores were in use whenever one began, as the kernel tells it."""

    def __init__(self, together):
        super().__init__()
        self._together = together

    def append(self, process):
        super().append(process)
        assert os.sched_getaffinity(process.place.pid) == set(process.place.cores)
        self._together.append([item.place.cores for item in self])
