"""A GPU worker's reply -> a profile: device times, and what Triton's compiler gave to each kernel."""

import pytest
from test_profile_timeline import Replies, candidate

from kernelskill.errors import WorkerError
from kernelskill.evaluation.worker.device_steps import owner_of
from kernelskill.profiling import GpuProfiler

WORKER = {
    "calls_us": [300.0, 310.0],
    "kernels": {"rows": {"times_us": [250.0], "count": 1}},
    "operators": [{"op": "aten::mm", "count": 1.0, "time_us": 20.0}],
    "resources": {"rows": {"registers": 40, "spills": 0, "shared_bytes": 64, "warps": 8}},
}


def profile(reply):
    return GpuProfiler(Replies(reply)).profile(candidate())


def test_device_times_and_resources():
    found = profile(WORKER)
    assert (found.kind, found.total_us, found.note) == ("timeline", 305.0, "")
    assert [(step.name, step.kind, step.time_us) for step in found.steps] == [
        ("rows", "kernel", 250.0),
        ("aten.mm", "operator", 20.0),
        ("python", "overhead", 35.0),
    ]
    assert found.static == {"rows": {"registers": 40, "spills": 0, "shared_bytes": 64, "warps": 8}}


@pytest.mark.parametrize(
    ("resources", "kept"),
    [
        (None, {}),
        ({"rows": None}, {"rows": {}}),
        ({"rows": {"registers": "many", "warps": 4, "spills": -1}}, {"rows": {"warps": 4}}),
    ],
)
def test_resources_that_are_no_numbers_are_left_out(resources, kept):
    assert profile({**WORKER, "resources": resources}).static == kept


@pytest.mark.parametrize("reply", [{"error": "no GPU"}, None, WorkerError("it is gone")])
def test_without_times_the_reason_is_kept(reply):
    found = profile(reply)
    assert (found.kind, found.total_us) == ("static", None)
    assert found.note


@pytest.mark.parametrize(
    ("launched", "owner"),
    [("_rows", "rows"), ("_rows_1", "rows"), ("_rows_wide_total", "rows_wide"), ("_row", ""), ("gemm", "")],
)
def test_a_launch_belongs_to_the_kernel_with_the_longest_fitting_name(launched, owner):
    assert owner_of(launched, ["rows", "rows_wide"]) == owner
