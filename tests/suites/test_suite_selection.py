"""Levels and tasks as people write them."""

import pytest
from written_suites import task

from kernelskill.errors import ConfigError
from kernelskill.records import Suite
from kernelskill.suites.selection import select

SUITE = Suite(
    name="toy", root="/s", origin="/s",
    tasks=tuple(task(level, number) for level in (1, 2) for number in range(1, 31)),
)  # fmt: skip


def picked(levels=None, tasks=None):
    return [(item.level, item.number) for item in select(SUITE, levels, tasks).tasks]


def test_everything_without_a_word():
    assert len(picked()) == 60


@pytest.mark.parametrize(
    ("levels", "tasks", "expected"),
    [
        ("2", "1-3,5", [(2, 1), (2, 2), (2, 3), (2, 5)]),
        ("level1", "30", [(1, 30)]),
        (None, "7", [(1, 7), (2, 7)]),
        (None, "2/7,1/29-40", [(1, 29), (1, 30), (2, 7)]),
        (None, "level2/3_Gate,1/1", [(1, 1), (2, 3)]),
        ("1,2", "3,3,2-3", [(1, 2), (1, 3), (2, 2), (2, 3)]),
    ],
)
def test_what_is_picked(levels, tasks, expected):
    assert picked(levels, tasks) == expected


@pytest.mark.parametrize(
    ("levels", "tasks", "message"),
    [
        ("3", None, "has these levels: 1, 2"),
        ("one", None, "has these levels"),
        ("1", "31", "has no such task"),
        (None, "2/31", "has no such task"),
        (None, "5_Nothing", "has no such task"),
        (None, ",", "no task"),
    ],
)
def test_what_names_nothing_is_refused(levels, tasks, message):
    with pytest.raises(ConfigError, match=message):
        picked(levels, tasks)
