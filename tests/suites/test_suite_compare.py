"""Two runs side by side: only what the intervals tell apart is called better or worse."""

import pytest
from written_suites import answer, line, task

from kernelskill.errors import RunError
from kernelskill.records import TaskOutcome
from kernelskill.suites.compare import compare

TASKS = [task(1, number) for number in range(1, 7)]


def faster(place, stock):
    return line(TASKS[place], TaskOutcome.FASTER, answer(2 * stock, stock))


def test_changes_and_their_geometric_mean():
    first = [
        faster(0, 1.5),
        faster(1, 1.5),
        faster(2, 2.0),
        line(TASKS[3], TaskOutcome.STOCK, reason="x"),
        faster(4, 1.2),
    ]
    second = [
        faster(0, 3.0), faster(1, 1.51), faster(2, 1.0), faster(3, 1.4), line(TASKS[4], TaskOutcome.FAILED, reason="y"),
        faster(5, 2.0),
    ]  # fmt: skip
    found = compare(("a", "b"), first, second)
    assert [item.change for item in found.changes] == ["better", "same", "worse", "gained", "lost"]
    assert (found.shared, found.verified_in_both) == (5, 3)
    assert found.only_second == ("level1/6_Gate",)
    assert found.ratio["best stock"].value == pytest.approx((2.0 * (1.51 / 1.5) * 0.5) ** (1 / 3))
    assert found.ratio["best stock"].low < 1 < found.ratio["best stock"].high


def test_a_task_whose_text_changed_is_not_the_same_task():
    changed = faster(0, 2.0).model_copy(update={"hash": "e" * 64})
    with pytest.raises(RunError, match="share no finished task"):
        compare(("a", "b"), [faster(0, 2.0)], [changed])
