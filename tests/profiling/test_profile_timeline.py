"""Raw times of a profiling worker -> a profile, whatever is missing or odd."""

import math
from typing import Any

import pytest

from kernelskill.errors import WorkerError
from kernelskill.profiling import CpuProfiler
from kernelskill.profiling.profiler import kernel_names
from kernelskill.records import Candidate

WORKER = {
    "calls_us": [100.0, 120.0, 110.0],
    "kernels": {
        "rows": {"times_us": [50.0, 70.0, 60.0], "count": 1},
        "idle": {"times_us": [0.0], "count": 0},
    },
    "operators": [{"op": "aten::mm", "count": 2.0, "time_us": 30.0}],
    "one_thread": {"calls_us": [200.0], "kernels": {"rows": {"times_us": [100.0], "count": 1}}},
    "compiled": False,
    "unknown": [],
}


class Replies:
    """An evaluator that only knows how to answer `profile`, and `count` where it is given a log."""

    def __init__(self, reply: Any, log: str | None = None) -> None:
        self.reply = reply
        self.log = log
        self.asked: tuple[str, ...] = ()
        self.counts = 0

    def profile(self, candidate, kernels):
        self.asked = tuple(kernels)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def count(self, candidate, metrics):
        self.counts += 1
        return {"log": "", "error": "ncu is not installed"} if self.log is None else {"log": self.log}


def candidate(
    program: Any = None, source: str = "def rows(x): ...\ndef _build(): ...\nclass ModelNew: ..."
) -> Candidate:
    return Candidate(id="c000", source=source, program=program)


def profile(reply):
    return CpuProfiler(Replies(reply)).profile(candidate())


def test_steps_are_medians_and_the_rest_is_overhead():
    found = profile(WORKER)
    assert found.kind == "timeline"
    assert found.total_us == 110.0
    assert [(step.name, step.kind, step.time_us, step.calls) for step in found.steps] == [
        ("rows", "kernel", 60.0, 1),
        ("aten.mm", "operator", 30.0, 2),
        ("python", "overhead", 20.0, 1),
    ]
    assert found.steps[0].one_thread_us == 100.0
    assert found.steps[1].one_thread_us is None


def test_steps_longer_than_the_call_leave_no_negative_rest():
    found = profile({**WORKER, "calls_us": [70.0]})
    assert found.steps[-1].time_us == 0.0


@pytest.mark.parametrize(
    "reply",
    [None, {}, {"calls_us": []}, {"calls_us": [math.nan]}, {"kernels": {"rows": 3}}, [1], {"calls_us": "fast"},
     {"calls_us": 7.0}, {"operators": [{"op": "aten::mm"}], "calls_us": [1.0]}],
)  # fmt: skip
def test_odd_replies_leave_the_static_part_and_a_note(reply):
    found = profile(reply)
    assert found.kind == "static"
    assert found.total_us is None
    assert found.steps == ()
    assert "no step times" in found.note


def test_a_worker_that_fails_is_a_note():
    found = profile(WorkerError("the profiling worker did not start"))
    assert found.kind == "static"
    assert "did not start" in found.note
    assert "timed out after 9 s" in profile({"error": "timed out after 9 s"}).note


def test_kernels_are_the_programs_or_the_public_functions():
    program = {"kernels": [{"name": "rows_1"}, {"name": "map_2"}]}
    assert kernel_names(candidate(program)) == ("rows_1", "map_2")
    assert kernel_names(candidate()) == ("rows",)
    assert kernel_names(candidate(source="def broken(:")) == ()
    evaluator = Replies(WORKER)
    CpuProfiler(evaluator).profile(candidate(program))
    assert evaluator.asked == ("rows_1", "map_2")
