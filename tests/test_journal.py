"""A step is done once, however often its run is interrupted."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from kernelskill.errors import RunError
from kernelskill.journal import Journal, load_run
from kernelskill.records import Budget, Interval, Reference, Run, Task


def manifest(name="run"):
    task = Task(
        name="t",
        hash="0" * 64,
        origin="t.py",
        reference=Reference(loader="source", kind="module", entry="Model"),
    )
    return Run(
        id=name,
        created="2026-01-01",
        task=task,
        target="cpu",
        budget=Budget(),
        config={},
        machine={"threads": 2},
    )


@pytest.fixture
def journal(tmp_path):
    journal = Journal.create(tmp_path / "run", manifest())
    yield journal
    journal.close()


def test_a_recorded_step_is_read_back_not_done_again(journal):
    first = journal.step("a", Interval, lambda: Interval(low=1, value=2, high=3))
    again = journal.step("a", Interval, lambda: pytest.fail("done twice"))
    assert again == first


def test_nothing_is_a_decision_too(journal):
    assert journal.optional("plan", Interval, lambda: None) is None
    assert journal.optional("plan", Interval, lambda: pytest.fail("decided twice")) is None


def test_a_reopened_run_knows_its_steps_and_what_they_cost(journal):
    journal.step("a", Interval, lambda: Interval(low=1, value=2, high=3))
    cost = journal.spent_s
    journal.close()
    reopened = Journal(journal.folder)
    assert reopened.spent_s == 0
    assert reopened.step("a", Interval, lambda: pytest.fail("done twice")).value == 2
    assert reopened.spent_s == pytest.approx(cost, abs=1e-3)
    reopened.close()


def test_a_line_cut_short_is_dropped_and_the_next_line_is_whole(journal):
    journal.step("a", Interval, lambda: Interval(low=1, value=2, high=3))
    journal.close()
    with (journal.folder / "events.jsonl").open("a") as file:
        file.write('{"step": "b", "val')
    reopened = Journal(journal.folder)
    assert not reopened.has("b")
    reopened.step("b", Interval, lambda: Interval(low=4, value=5, high=6))
    reopened.close()
    last = Journal(journal.folder)
    assert last.has("b")
    last.close()


def test_one_process_at_a_time(journal):
    with pytest.raises(RunError, match="another process"):
        Journal(journal.folder)


def test_a_folder_is_not_started_twice(journal):
    with pytest.raises(RunError, match="resume"):
        Journal.create(journal.folder, manifest())


def test_garbage_in_the_middle_names_its_line(journal):
    journal.close()
    (journal.folder / "events.jsonl").write_text("garbage\n{}\n")
    with pytest.raises(RunError, match="line 1"):
        Journal(journal.folder)


def test_no_run_says_how_to_list_runs(tmp_path):
    with pytest.raises(RunError, match="kernelskill runs"):
        load_run(tmp_path / "none")


def test_a_killed_writer_leaves_whole_records(tmp_path):
    """kill -9 while steps are written: what was told done is there, and nothing half."""
    folder = tmp_path / "run"
    Journal.create(folder, manifest()).close()
    code = textwrap.dedent(f"""
        from pathlib import Path
        from kernelskill.journal import Journal
        from kernelskill.records import Interval
        journal = Journal(Path({str(folder)!r}))
        for number in range(10**6):
            journal.step(str(number), Interval, lambda: Interval(low=0, value=number, high=0))
            print(number, flush=True)
    """)
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    told = [writer.stdout.readline() for _ in range(50)]
    os.kill(writer.pid, signal.SIGKILL)
    told += writer.stdout.readlines()
    writer.stdout.close()
    writer.wait()
    journal = Journal(folder)
    whole = [line for line in told if line.endswith("\n")]
    for number in range(len(whole)):
        assert journal.step(str(number), Interval, lambda: pytest.fail("lost")).value == number
    journal.close()
