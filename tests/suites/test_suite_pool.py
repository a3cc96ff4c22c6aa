"""Tasks in processes of their own: one that dies or hangs is a line with its reason, and the others go on."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from small_suites import BROKEN, broken_suite, task_text, write_suite
from suite_work import settings, started, worked
from written_suites import task

from kernelskill.errors import ConfigError
from kernelskill.records import Run, TaskOutcome
from kernelskill.report import SilentProgress
from kernelskill.suites import conductor, start
from kernelskill.suites.cores import own_cores
from kernelskill.suites.folder import SuiteFolder
from kernelskill.suites.job import LOG, RESULT, Job, needed_bytes, stage, start_over
from kernelskill.suites.kinds import do
from kernelskill.suites.machine import Machine
from kernelskill.suites.pool import LocalPool, Seat
from kernelskill.suites.start import gpu_indices, local_pool, with_threads

CHILD = "kernelskill.suites.child"


def children():
    """Task processes that this process started, oldest first."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if CHILD in words and str(os.getpid()) in words:
            found.append(int(path.name))
    return sorted(found)


def processes_of(folder):
    """Processes that were given a path in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def kill_first(times, stop):
    """End task processes as they come up, so many of them."""
    seen = set()
    while len(seen) < times and not stop.is_set():
        for pid in children():
            if pid not in seen and len(seen) < times:
                seen.add(pid)
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


@pytest.fixture
def config(tmp_path):
    return settings(tmp_path)


def test_every_task_has_one_line_with_its_reason(tmp_path, config):
    folder = started(config, broken_suite(tmp_path / "suite", 3))
    lines = worked(folder)
    assert sorted(item.key for item in lines) == ["1_Broken", "2_Broken", "3_Broken"]
    assert all(item.outcome is TaskOutcome.FAILED for item in lines)
    assert all("missing dependency a_package_that_is_not_there" in item.reason for item in lines)
    assert all(item.wall_s > 0 and item.session and item.at for item in lines)
    assert worked(folder) == lines, "nothing is left to do"


@pytest.mark.parametrize(
    ("kills", "reason"), [(1, "missing dependency"), (2, "its process ended by signal SIGKILL")]
)
def test_a_process_that_dies_is_replaced_once(tmp_path, config, kills, reason):
    folder = started(config, broken_suite(tmp_path / "suite", 1))
    stop = threading.Event()
    killer = threading.Thread(target=kill_first, args=(kills, stop))
    killer.start()
    (only,) = worked(folder)
    stop.set()
    killer.join()
    assert reason in only.reason


def test_a_task_that_takes_too_long_is_ended(tmp_path, config, monkeypatch):
    monkeypatch.setattr(conductor, "GRACE_S", 0.05)
    hasty = config.model_copy(update={"budget": config.budget.model_copy(update={"seconds": 0.0})})
    (only,) = worked(started(hasty, broken_suite(tmp_path / "suite", 1)))
    assert only.outcome is TaskOutcome.FAILED
    assert "took longer than" in only.reason
    assert children() == []


def test_a_line_that_a_killed_session_left_is_taken_not_made_again(tmp_path, config):
    folder = started(config, broken_suite(tmp_path / "suite", 2))
    first, second = worked(folder)
    left = second.model_copy(update={"reason": "made by the session that was killed", "folder": ""})
    (folder.tasks / second.key / RESULT).write_text(left.model_dump_json())
    path = folder.path / "results.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    again = worked(folder)
    assert [item.key for item in again] == [first.key, second.key]
    assert again[1].reason == left.reason


def test_a_text_that_changed_under_a_run_is_a_line_that_says_so(tmp_path, config):
    suite = broken_suite(tmp_path / "suite", 2)
    folder = started(config, suite)
    (suite / "2_Broken.py").write_text("# something else\n")
    lines = {item.key: item.reason for item in worked(folder)}
    assert "has changed since this run began" in lines["2_Broken"]
    assert "missing dependency" in lines["1_Broken"]


def test_tasks_die_with_the_suite(tmp_path, config):
    """A suite killed while a task runs leaves no process behind."""
    folder = started(config, broken_suite(tmp_path / "suite", 30))
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from suite_work import *; from pathlib import Path;"
        "worked(SuiteFolder(Path(sys.argv[1])))"
    )
    here = str(Path(__file__).parent)
    process = subprocess.Popen([sys.executable, "-c", code, str(folder.path), here])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not folder.running():
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline and processes_of(folder.path):
        time.sleep(0.05)
    assert processes_of(folder.path) == []
    assert len(SuiteFolder(folder.path).results()) < 30


@pytest.mark.slow
def test_what_ran_short_of_memory_beside_others_is_done_again_alone(tmp_path, config):
    """Beside others a lack of memory says nothing about a task; alone it is its own, and its line."""
    greedy = task_text('raise RuntimeError("out of memory: tried to allocate 900 GB")')
    suite = write_suite(tmp_path / "suite", {"1_Greedy.py": greedy, "2_Broken.py": BROKEN})
    folder = started(config, suite)
    lines = {item.key: item for item in worked(folder, LocalPool([Seat(places=2)]))}
    assert "not enough memory" in lines["1_Greedy"].reason
    assert lines["1_Greedy"].outcome is TaskOutcome.UNTESTABLE
    assert not lines["1_Greedy"].starved
    log = (folder.tasks / "1_Greedy" / LOG).read_text()
    assert log.count("describe") == 2, "once beside the other, once alone"
    assert (folder.tasks / "2_Broken" / LOG).read_text().count("describe") == 0


def test_a_task_goes_on_where_things_lie_now(tmp_path, config):
    """A run's folder that was carried to another machine: other GPU, other paths, the suite itself gone."""
    suite = write_suite(tmp_path / "suite", {"1_Refuses.py": task_text('raise RuntimeError("not today")')})
    folder = started(config, suite, kind="run")
    (only,) = folder.left()
    before = folder.tasks / only.key
    job = conductor.job_of(folder, only, None)
    stage(job, before)
    assert do(job, before, 1, SilentProgress()).outcome is TaskOutcome.FAILED, (
        "it cannot be described, and stays begun"
    )
    after = tmp_path / "elsewhere" / only.key
    shutil.copytree(before, after)
    suite.rename(tmp_path / "gone")
    do(job, after, 0, SilentProgress())
    (home,) = (after / "runs").iterdir()
    run = Run.model_validate_json((home / "run.json").read_text())
    assert (run.config["gpu"], run.config["runs"]) == (0, str(after / "runs"))
    assert run.task.reference.search_path == (str(after),)


# -- seats: pure rules ---------------------------------------------------------------------------------


class Running:
    """A task on a seat, as the seat sees it."""

    def __init__(self, job):
        self.job, self.alone = job, job.alone


def job(needs, alone=False):
    return Job(task=task(1, 1), kind="run", settings={}, needs_bytes=needs, alone=alone, limit_s=1.0)


def test_a_large_task_waits_until_there_is_room():
    seat = Seat(0, places=3, memory_bytes=100)
    assert seat.takes(job(150)), "on an empty device anything may try"
    seat.running = [Running(job(50))]
    assert not seat.takes(job(60))
    assert seat.takes(job(50))
    assert seat.takes(job(None)), "what is not known is taken for its share"
    seat.running = [Running(job(10)), Running(job(10)), Running(job(10))]
    assert not seat.takes(job(10)), "no place left"


def test_what_ran_short_of_memory_runs_alone():
    seat = Seat(0, places=3, memory_bytes=100)
    assert not seat.is_alone(job(1))
    assert Seat(0, places=1).is_alone(job(1))
    seat.running = [Running(job(1))]
    assert not seat.takes(job(1, alone=True))
    seat.running = [Running(job(1, alone=True))]
    assert not seat.takes(job(1))


def test_that_a_task_is_to_run_alone_survives_a_kill(tmp_path, config):
    folder = started(config, broken_suite(tmp_path / "suite", 1))
    (only,) = folder.left()
    home = folder.tasks / only.key
    first = conductor.job_of(folder, only, None)
    assert not first.alone
    stage(first, home)
    assert start_over(first, home).alone
    assert conductor.job_of(folder, only, None).alone


def test_needed_memory_grows_with_what_a_call_moves():
    assert needed_bytes("run", None, None) is None
    small, middle, huge = (needed_bytes("run", moved, 0) for moved in (1 << 20, 1 << 30, 8 << 30))
    assert small < middle < huge
    assert needed_bytes("run", 9 << 30, 0) - huge == 8 << 30, "one call fills the judge's memory for calls"
    assert needed_bytes("run", 0, 1 << 30) - needed_bytes("run", 0, 0) == 8 << 30
    assert needed_bytes("audit", 8 << 30, 0) < huge, "an audit holds no candidate"


def test_large_tasks_go_first_and_small_ones_fill_the_room(tmp_path, config):
    folder = started(config, broken_suite(tmp_path / "suite", 4))
    sizes = {
        "1_Broken": (1 << 20, 0),
        "2_Broken": (1 << 30, 0),
        "3_Broken": (6 << 30, 0),
        "4_Broken": (2 << 30, 0),
    }
    room = needed_bytes("audit", *sizes["3_Broken"]) + needed_bytes("audit", *sizes["1_Broken"])
    seen = []
    seat = Seat(places=4, memory_bytes=room)
    seat.running = Beginnings(seen)
    worked(folder, LocalPool([seat]), sizes=sizes)
    assert seen[:2] == ["3_Broken", "1_Broken"]
    assert sorted(seen) == sorted(sizes)


class Beginnings(list):
    """Tasks on a seat; keeps the order in which they began."""

    def __init__(self, seen):
        super().__init__()
        self._seen = seen

    def append(self, process):
        self._seen.append(process.job.task.key)
        super().append(process)


def test_on_a_cpu_timing_is_never_disturbed(config):
    machine = Machine(facts={})
    with pytest.raises(ConfigError, match="timing and other work share the cores"):
        local_pool(config, "run", machine, 2, "all")
    assert local_pool(config, "audit", machine, 2, "all").seats[0].places == 2
    assert local_pool(config, "run", machine, None, "all").seats[0].places == 1


def test_a_gpu_has_as_many_places_as_there_are_shares_of_the_cores(monkeypatch):
    cuda = with_threads(settings(Path("/nowhere"), target="cuda").model_copy(update={"threads": None}))
    gpus = Machine(facts={}, gpu_bytes=(100, 100))
    for cores, places in ((32, 8), (64, 10), (4, 2)):
        monkeypatch.setattr(start, "own_cores", lambda cores=cores: list(range(cores)))
        assert [seat.places for seat in local_pool(cuda, "run", gpus, None, "all").seats] == [places, places]
    monkeypatch.setattr(start, "own_cores", lambda: list(range(32)))
    assert local_pool(cuda, "run", gpus, None, "0").seats[0].places == 10
    wide = cuda.model_copy(update={"threads": 8})
    assert local_pool(wide, "run", gpus, None, "all").seats[0].places == 2


def test_threads_are_those_of_a_share_unless_given():
    cuda, cpu = settings(Path("/nowhere"), target="cuda"), settings(Path("/nowhere"))
    unset = {"threads": None}
    assert with_threads(cuda.model_copy(update=unset)).threads == min(2, len(own_cores()))
    assert with_threads(cuda.model_copy(update={"threads": 5})).threads == 5
    assert with_threads(cpu.model_copy(update=unset)).threads is None, "a CPU's task has all cores"


def test_a_seat_for_each_gpu():
    cuda = settings(Path("/nowhere"), target="cuda")
    machine = Machine(facts={}, gpu_bytes=(100, 200, 300))
    seats = local_pool(cuda, "run", machine, 4, "0,2").seats
    assert [(seat.gpu, seat.places, seat.memory_bytes) for seat in seats] == [(0, 4, 100), (2, 4, 300)]
    assert gpu_indices("all", 3) == (0, 1, 2)
    for text in ("3", "x", ""):
        with pytest.raises(ConfigError, match="torch sees 3"):
            gpu_indices(text, 3)


def test_two_seats_share_the_tasks(tmp_path, config):
    """Handed out one at a time: both are busy, each task is done once."""
    folder = started(config, broken_suite(tmp_path / "suite", 4))
    lines = worked(folder, LocalPool([Seat(), Seat()]))
    assert sorted(item.key for item in lines) == [f"{number}_Broken" for number in range(1, 5)]
