"""Which tasks of a suite: `--level 1,2` and `--tasks 1-20,40` or, across levels, `--tasks 1/19,2/1-5`."""

from __future__ import annotations

import re

from kernelskill.errors import ConfigError
from kernelskill.records import Suite, SuiteTask

_ITEM = re.compile(r"(?:(?:level)?(\d+)/)?(\d+)(?:-(\d+))?")


def select(suite: Suite, levels: str | None, tasks: str | None) -> Suite:
    """The suite with the tasks asked for, in its own order.

    Args:
        suite: with all its tasks.
        levels: comma-separated numbers; None takes every level.
        tasks: comma-separated numbers, ranges, LEVEL/NUMBER, LEVEL/FROM-TO or keys; None takes every task.

    Raises:
        ConfigError: an item is not understood, or names nothing in the suite.
    """
    chosen = _of_levels(suite, levels)
    if tasks is not None:
        wanted = [item.strip() for item in tasks.split(",") if item.strip()]
        picked = {task.key for item in wanted for task in _of_item(chosen, item, suite.name)}
        chosen = tuple(task for task in chosen if task.key in picked)
    if not chosen:
        raise ConfigError(f"no task of suite {suite.name} is selected")
    return suite.model_copy(update={"tasks": chosen})


def _of_levels(suite: Suite, levels: str | None) -> tuple[SuiteTask, ...]:
    if levels is None:
        return suite.tasks
    known = sorted({task.level for task in suite.tasks if task.level is not None})
    wanted = [item.strip().removeprefix("level") for item in levels.split(",") if item.strip()]
    for item in wanted:
        if not item.isdecimal() or int(item) not in known:
            have = ", ".join(map(str, known)) or "none (its tasks lie in one folder)"
            raise ConfigError(f"--level {item}: suite {suite.name} has these levels: {have}")
    return tuple(task for task in suite.tasks if task.level in {int(item) for item in wanted})


def _of_item(tasks: tuple[SuiteTask, ...], item: str, suite: str) -> list[SuiteTask]:
    found = [task for task in tasks if item in (task.key, task.name)]
    parsed = _ITEM.fullmatch(item)
    if not found and parsed:
        level, first, last = parsed[1], int(parsed[2]), int(parsed[3] or parsed[2])
        found = [
            task
            for task in tasks
            if task.number is not None
            and first <= task.number <= last
            and (level is None or task.level == int(level))
        ]
    if not found:
        raise ConfigError(
            f"--tasks {item}: suite {suite} has no such task here; give numbers, ranges, LEVEL/NUMBER or names "
            f"(see: kernelskill suite list {suite})"
        )
    return found
