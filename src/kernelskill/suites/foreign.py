"""Kernels that others wrote: KernelBench's run folders, and plain folders, matched to the tasks of a suite."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from kernelskill.errors import TaskError
from kernelskill.records import Foreign, Suite, SuiteTask

_KERNELBENCH = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel")
_NUMBERED = re.compile(r"(\d+)_.*")
_LEVEL = re.compile(r"level[_-]?(\d+)", re.IGNORECASE)
_SAMPLE = re.compile(r"(.*?)_sample_(\d+)")


def match(suite: Suite, folder: Path) -> tuple[dict[str, tuple[Foreign, ...]], list[str]]:
    """Kernels of a folder by task.

    Args:
        suite: with the tasks to match.
        folder: holds `level_L_problem_P_sample_S_kernel.py` files, or files named as the tasks are (`N_Name.py`,
            `N_anything.py` where numbers are unique), also in folders by level.

    Returns:
        Task key -> its kernels, in order of samples; and the files that fit no task.

    Raises:
        TaskError: there is no such folder, or no file in it fits a task.
    """
    if not folder.is_dir():
        raise TaskError(f"there is no folder {folder}")
    found: dict[str, list[Foreign]] = {}
    strangers: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        task, sample = _task_of(suite, path)
        if task is None:
            strangers.append(str(path.relative_to(folder)))
            continue
        kernels = found.setdefault(task.key, [])
        name = (
            path.stem if all(item.id != path.stem for item in kernels) else f"{path.parent.name}-{path.stem}"
        )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        kernels.append(Foreign(id=name, path=str(path.resolve()), hash=digest, sample=sample))
    if not found:
        raise TaskError(
            f"no file in {folder} fits a task of suite {suite.name}: name them level_L_problem_P_sample_S_kernel.py, "
            "or as the task's file"
        )
    return {
        key: tuple(sorted(items, key=lambda item: (item.sample, item.id))) for key, items in found.items()
    }, strangers


def _task_of(suite: Suite, path: Path) -> tuple[SuiteTask | None, int]:
    if named := _KERNELBENCH.fullmatch(path.stem):
        level, number, sample = (int(part) for part in named.groups())
        return _one(suite, lambda task: task.number == number and task.level in (level, None)), sample
    stem, sample = path.stem, 0
    if sampled := _SAMPLE.fullmatch(stem):
        stem, sample = sampled[1], int(sampled[2])
    inside = _LEVEL.fullmatch(path.parent.name)
    levels = (int(inside[1]), None) if inside else None

    def here(task: SuiteTask) -> bool:
        return levels is None or task.level in levels

    exact = _one(suite, lambda task: here(task) and task.name == stem)
    if exact is not None:
        return exact, sample
    numbered = _NUMBERED.fullmatch(stem)
    if numbered is None:
        return None, sample
    return _one(suite, lambda task: here(task) and task.number == int(numbered[1])), sample


def _one(suite: Suite, fits: Callable[[SuiteTask], bool]) -> SuiteTask | None:
    """The only task that fits; a name that fits several is nobody's."""
    found = [task for task in suite.tasks if fits(task)]
    return found[0] if len(found) == 1 else None
