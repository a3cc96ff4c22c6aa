"""Suites by name: folders of KernelBench-style files. Only where they lie is kept; their files stay where they are."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kernelskill.config import Config
from kernelskill.errors import TaskError
from kernelskill.journal import write_atomically
from kernelskill.records import Suite, SuiteTask

_LEVEL = re.compile(r"level[_-]?(\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(\d+)_\w")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_ADDRESS = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_DEFINES = re.compile(r"^(class\s+Model\b|def\s+get_inputs\b)", re.MULTILINE)
INNER = ("KernelBench", "tasks", "problems")
"""Folders of a repository in which its tasks may lie."""


def add(config: Config, name: str, source: str) -> Suite:
    """Give a folder, or a repository, a name.

    Args:
        config: says where names are kept.
        name: what to call it.
        source: folder, or address that git can clone.

    Raises:
        TaskError: the name is not usable, there is nothing at the source, or no task in it.
    """
    if not _NAME.fullmatch(name):
        raise TaskError(f"{name!r} is no name for a suite: use letters, digits, '-', '_' and '.'")
    config.suites.mkdir(parents=True, exist_ok=True)
    if _ADDRESS.match(source):
        root = _cloned(source, config.suites / name)
    else:
        root = Path(source).expanduser().resolve()
        if not root.is_dir():
            raise TaskError(f"there is no folder {source}; give a folder, or an address that git can clone")
    found = scan(Suite(name=name, root=str(root), origin=source, commit=_commit(root)))
    kept = found.model_copy(update={"tasks": ()})
    write_atomically(config.suites / f"{name}.json", kept.model_dump_json(indent=2) + "\n")
    return found


def find(config: Config, name: str) -> Suite:
    """A suite with the tasks that its folder holds now: by name, or by the folder's path.

    Raises:
        TaskError: there is none of that name, its folder is gone, or it holds no task.
    """
    file = config.suites / f"{name}.json"
    if _NAME.fullmatch(name) and file.exists():
        return scan(_read(file))
    if Path(name).is_dir():
        root = Path(name).resolve()
        return scan(Suite(name=root.name or "suite", root=str(root), origin=name, commit=_commit(root)))
    known = ", ".join(suite.name for suite in known_suites(config)) or "none yet"
    raise TaskError(
        f"no suite {name!r} (known: {known}); add one with: kernelskill suite add {name} --from PATH"
    )


def known_suites(config: Config) -> list[Suite]:
    """All that were added, without their tasks."""
    return [_read(path) for path in sorted(config.suites.glob("*.json"))]


def scan(suite: Suite) -> Suite:
    """The suite with its tasks: files of its level folders, or of the folder itself.

    Raises:
        TaskError: the folder is gone, or holds no task.
    """
    root = Path(suite.root)
    if not root.is_dir():
        raise TaskError(f"the folder of suite {suite.name} is gone: {root}; add it again")
    for place in (root, *(root / inner for inner in INNER)):
        tasks = sorted(_tasks_in(place), key=_order)
        if tasks:
            return suite.model_copy(update={"root": str(place), "tasks": tuple(tasks)})
    raise TaskError(
        f"{root} holds no task: neither level1, level2, ... with N_Name.py files, nor files that define Model "
        "and get_inputs"
    )


def _tasks_in(root: Path) -> Iterator[SuiteTask]:
    levels = {
        int(found[1]): folder
        for folder in (root.iterdir() if root.is_dir() else ())
        if folder.is_dir() and (found := _LEVEL.fullmatch(folder.name))
    }
    for level, folder in levels.items():
        yield from _files(folder, level, f"{folder.name}/")
    if not levels and root.is_dir():
        yield from _files(root, None, "")


def _files(folder: Path, level: int | None, prefix: str) -> Iterator[SuiteTask]:
    for path in folder.glob("*.py"):
        text = path.read_bytes()
        if len(set(_DEFINES.findall(text.decode("utf-8", "replace")))) < 2:
            continue
        numbered = _NUMBERED.match(path.name)
        yield SuiteTask(
            key=f"{prefix}{path.stem}",
            level=level,
            number=int(numbered[1]) if numbered else None,
            name=path.stem,
            path=str(path),
            hash=hashlib.sha256(text).hexdigest(),
        )


def _order(task: SuiteTask) -> tuple[int, int, str]:
    return task.level or 0, task.number if task.number is not None else 1 << 30, task.name


def _read(path: Path) -> Suite:
    try:
        return Suite.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise TaskError(f"{path} does not describe a suite of this version; add it again: {error}") from error


def _cloned(address: str, folder: Path) -> Path:
    """A fresh clone without history; an older one of that name gives way once the new one is whole."""
    staging = Path(tempfile.mkdtemp(prefix=".clone-", dir=folder.parent))
    try:
        done = subprocess.run(
            ["git", "clone", "--quiet", "--depth", "1", "--", address, str(staging / "tree")],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise TaskError(f"git cannot clone {address}: {lines[-1] if lines else 'no reason given'}")
        shutil.rmtree(folder, ignore_errors=True)
        (staging / "tree").rename(folder)
    except FileNotFoundError as error:
        raise TaskError("git is missing: apt-get install git, or give a folder") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _commit(root: Path) -> str:
    """The commit of the repository that keeps the folder's files; "" where none does."""
    try:
        kept, head = (
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
            for words in (["ls-files", "--", "*.py"], ["rev-parse", "HEAD"])
        )
    except FileNotFoundError:
        return ""
    return head.stdout.strip() if kept.stdout and head.returncode == 0 else ""
