"""Suites keep where their files lie, and find them in every layout that people have."""

import subprocess

import pytest
from small_suites import BROKEN, GATE, write_suite

from kernelskill.config import Config
from kernelskill.errors import TaskError
from kernelskill.suites import catalog


@pytest.fixture
def config(tmp_path):
    return Config(suites=tmp_path / "kept")


LEVELS = {
    "level1/10_Ten.py": GATE, "level1/9_Nine.py": BROKEN, "level2/1_One.py": GATE, "level1/notes.py": "x = 1\n",
    "changelog/1_Old.py": GATE,
}  # fmt: skip


def keys(suite):
    return [task.key for task in suite.tasks]


def test_levels_are_folders_and_tasks_are_in_the_order_of_their_numbers(config, tmp_path):
    write_suite(tmp_path / "bench", LEVELS)
    suite = catalog.add(config, "bench", str(tmp_path / "bench"))
    assert keys(suite) == ["level1/9_Nine", "level1/10_Ten", "level2/1_One"]
    assert [(task.level, task.number) for task in suite.tasks] == [(1, 9), (1, 10), (2, 1)]
    assert catalog.find(config, "bench") == suite


def test_a_repository_may_keep_its_levels_in_a_folder_of_its_name(config, tmp_path):
    write_suite(tmp_path / "repository" / "KernelBench", LEVELS)
    suite = catalog.add(config, "bench", str(tmp_path / "repository"))
    assert keys(suite) == ["level1/9_Nine", "level1/10_Ten", "level2/1_One"]


def test_a_flat_folder_is_a_suite_and_needs_no_name(config, tmp_path):
    write_suite(tmp_path / "mine", {"2_B.py": GATE, "1_A.py": GATE, "zeta.py": GATE, "setup.py": "x = 1\n"})
    suite = catalog.find(config, str(tmp_path / "mine"))
    assert keys(suite) == ["1_A", "2_B", "zeta"]
    assert [task.number for task in suite.tasks] == [1, 2, None]
    assert {task.level for task in suite.tasks} == {None}


def test_a_suite_is_read_anew_each_time(config, tmp_path):
    folder = write_suite(tmp_path / "mine", {"1_A.py": GATE})
    before = catalog.add(config, "mine", str(folder)).tasks[0]
    write_suite(folder, {"1_A.py": GATE + "# changed\n", "2_B.py": GATE})
    after = catalog.find(config, "mine")
    assert keys(after) == ["1_A", "2_B"]
    assert after.tasks[0].hash != before.hash


def test_an_address_is_cloned_and_its_commit_kept(config, tmp_path):
    folder = write_suite(tmp_path / "origin", LEVELS)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "tasks"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    suite = catalog.add(config, "cloned", f"file://{folder}")
    assert suite.commit == head
    assert suite.root.startswith(str(config.suites))
    assert len(suite.tasks) == 3
    assert catalog.add(config, "cloned", f"file://{folder}") == suite, "adding twice renews the clone"
    assert [path.name for path in config.suites.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_a_repository_does_not_keep_has_no_commit(config, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "empty"], check=True)
    folder = write_suite(tmp_path / "ignored", {"1_A.py": GATE})
    assert catalog.add(config, "mine", str(folder)).commit == ""


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("../up", ".", "is no name for a suite"),
        ("nothing", "no-such-folder", "there is no folder"),
        ("empty", "empty", "holds no task"),
        ("gone", "file:///no/such/repository", "git cannot clone"),
    ],
)
def test_what_cannot_be_added_is_told(config, tmp_path, monkeypatch, name, source, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match=message):
        catalog.add(config, name, source)
    assert catalog.known_suites(config) == []


def test_an_unknown_suite_names_the_known_and_how_to_add_one(config, tmp_path):
    catalog.add(config, "mine", str(write_suite(tmp_path / "mine", {"1_A.py": GATE})))
    with pytest.raises(TaskError, match=r"known: mine.*suite add"):
        catalog.find(config, "yours")


def test_a_suite_whose_folder_is_gone_says_so(config, tmp_path):
    folder = write_suite(tmp_path / "mine", {"1_A.py": GATE})
    catalog.add(config, "mine", str(folder))
    folder.rename(tmp_path / "moved")
    with pytest.raises(TaskError, match="is gone"):
        catalog.find(config, "mine")
