"""A suite run's folder keeps what is finished, whatever ends the process, and refuses to mix settings."""

import json

import pytest
from written_suites import answer, line, manifest, session, task

from kernelskill.config import Config
from kernelskill.errors import RunError
from kernelskill.records import TaskOutcome
from kernelskill.suites.folder import (
    RESULTS,
    SuiteFolder,
    differences,
    find_folder,
    list_folders,
    require_same,
    settings_of,
)

TASKS = [task(1, number) for number in range(1, 4)]


@pytest.fixture
def folder(tmp_path):
    made = SuiteFolder.create(tmp_path / "runs", manifest(TASKS)).hold()
    yield made
    made.release()


def faster(place):
    return line(TASKS[place], TaskOutcome.FASTER, answer(2.0, 1.5))


def test_lines_are_read_back_as_they_were_written(folder):
    for place in (2, 0):
        folder.append(faster(place))
    again = SuiteFolder(folder.path)
    assert again.results() == [faster(2), faster(0)]
    assert [item.key for item in again.left()] == ["level1/2_Gate"]
    assert again.manifest == manifest(TASKS)
    assert all(json.loads(text)["key"] for text in (folder.path / RESULTS).read_text().splitlines())


def test_a_task_has_one_line(folder):
    folder.append(faster(0))
    with pytest.raises(RunError, match="has a line already"):
        folder.append(faster(0))


def test_a_line_cut_short_by_a_kill_is_done_again(folder):
    folder.append(faster(0))
    path = folder.path / RESULTS
    folder.release()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert SuiteFolder(folder.path).results() == [faster(0)], "reading alone changes nothing"
    again = SuiteFolder(folder.path).hold()
    again.append(faster(1))
    assert [item.key for item in again.results()] == ["level1/1_Gate", "level1/2_Gate"]
    again.release()


def test_one_process_at_a_time(folder):
    with pytest.raises(RunError, match="being worked on by another process"):
        SuiteFolder(folder.path).hold()
    folder.release()
    SuiteFolder(folder.path).hold().release()


def test_failed_tasks_can_be_done_again(folder):
    folder.append(faster(0))
    folder.append(line(TASKS[1], TaskOutcome.FAILED, reason="signal SIGKILL"))
    assert folder.forget({TaskOutcome.FAILED}) == 1
    assert [item.key for item in folder.left()] == ["level1/2_Gate", "level1/3_Gate"]
    folder.append(faster(1))
    assert len(SuiteFolder(folder.path).results()) == 2


def test_sessions_are_kept(folder):
    folder.note(session(10))
    folder.note(session(20))
    assert [item.wall_s for item in folder.sessions()] == [20], "a session overwrites its own file"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"settings": {"precision": "tf32"}}, "precision: match then, tf32 now"),
        ({"settings": {"budget": {"seconds": 5.0}}}, "budget"),
        ({"preset": "paper"}, "preset"),
        ({"kind": "audit"}, "kind: run then, audit now"),
        ({"tasks": TASKS[:2]}, "tasks: 3 .* then, 2"),
        ({"machine": {"device": "another", "threads": 16}}, "device: NVIDIA H200 then, another now"),
    ],
)
def test_what_numbers_depend_on_must_be_the_same(changed, told):
    old = manifest(TASKS)
    machine = changed.pop("machine", None)
    new = manifest(changed.pop("tasks", TASKS), **changed)
    if machine:
        new = new.model_copy(update={"machine": machine})
    with pytest.raises(RunError, match=told):
        require_same(old, new)


def test_a_changed_text_is_told_by_its_task():
    moved = [TASKS[0].model_copy(update={"hash": "0" * 64}), *TASKS[1:]]
    assert [text.split(":")[0] for text in differences(manifest(TASKS), manifest(moved))] == [
        "text of level1/1_Gate"
    ]


def test_where_things_lie_may_differ(tmp_path):
    here, there = (
        settings_of(Config(runs=tmp_path / name, cache=tmp_path / name, gpu=gpu))
        for name, gpu in (("a", 0), ("b", 1))
    )
    require_same(manifest(TASKS, settings=here), manifest(TASKS, settings=there))


def test_runs_are_found_by_parts_of_their_names(tmp_path):
    config = Config(runs=tmp_path)
    for place, name in enumerate(("alpha-run", "alpha-audit", "beta")):
        made = manifest(TASKS, id=name).model_copy(update={"created": f"2026-01-0{place + 1}"})
        SuiteFolder.create(tmp_path, made)
    assert [path.name for path in list_folders(config)] == ["alpha-run", "alpha-audit", "beta"]
    assert find_folder(config, "last").manifest.id == "beta"
    assert find_folder(config, "audit").manifest.id == "alpha-audit"
    assert find_folder(config, str(tmp_path / "beta")).manifest.id == "beta"
    with pytest.raises(RunError, match="fits 2 suite runs"):
        find_folder(config, "alpha")
    with pytest.raises(RunError, match="no suite run 'gamma'"):
        find_folder(config, "gamma")


def test_another_version_of_a_line_is_told_by_its_number(folder):
    (folder.path / RESULTS).write_text('{"key": "level1/1_Gate"}\n')
    with pytest.raises(RunError, match="line 1 is not a result of this version"):
        folder.results()
