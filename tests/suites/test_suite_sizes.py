"""Sizes that earlier runs have seen, by text."""

from small_suites import DEGENERATE, GATE, write_suite
from suite_work import settings, started

from kernelskill.records import Suite, TaskOutcome, TaskResult
from kernelskill.suites.audit import row_of
from kernelskill.suites.folder import RESULTS
from kernelskill.suites.sizes import sizes_of


def line(task, moved):
    return TaskResult(
        key=task.key, name=task.name, hash=task.hash, outcome=TaskOutcome.DESCRIBED, moved_bytes=moved, state_bytes=7
    )  # fmt: skip


def earlier(config, folder, moved):
    """A suite run whose first task was seen to move so much; its suite as it is now."""
    run = started(config, folder).hold()
    run.append(line(run.manifest.suite.tasks[0], moved))
    run.release()
    return run


def test_sizes_are_known_from_earlier_runs_of_the_same_text(tmp_path):
    config = settings(tmp_path)
    suite = write_suite(tmp_path / "suite", {"1_Gate.py": GATE, "2_Small.py": DEGENERATE})
    run = earlier(config, suite, 1000)
    tasks = run.manifest.suite.tasks
    assert sizes_of(config, run.manifest.suite, {}) == {"1_Gate": (1000, 7)}
    moved_away = Suite(
        name="other", root="", origin="", tasks=(tasks[0].model_copy(update={"key": "level3/9_Gate"}),)
    )
    assert sizes_of(config, moved_away, {}) == {"level3/9_Gate": (1000, 7)}
    changed = moved_away.model_copy(update={"tasks": (tasks[0].model_copy(update={"hash": "0" * 64}),)})
    assert sizes_of(config, changed, {}) == {}


def test_an_audit_comes_first_and_a_run_of_another_version_is_passed_over(tmp_path):
    config = settings(tmp_path)
    run = earlier(config, write_suite(tmp_path / "suite", {"1_Gate.py": GATE}), 1000)
    (task,) = run.manifest.suite.tasks
    rows = {task.key: row_of(line(task, 5))}
    assert sizes_of(config, run.manifest.suite, rows) == {"1_Gate": (5, 7)}
    (run.path / RESULTS).write_text('{"what": "is this"}\n')
    assert sizes_of(config, run.manifest.suite, {}) == {}
