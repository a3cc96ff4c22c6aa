"""What a GPU's workers and ncu say -> a profile: counters, device times, what the compiler gave; with less if need be."""

import pytest
from ncu_logs import METRIC, REFUSED, log
from test_profile_timeline import Replies, candidate

from kernelskill.errors import WorkerError
from kernelskill.evaluation.worker.device_steps import owner_of
from kernelskill.profiling import GpuProfiler
from kernelskill.profiling.gpu import owner

WORKER = {
    "calls_us": [300.0, 310.0],
    "kernels": {"rows": {"times_us": [250.0], "count": 1}},
    "operators": [{"op": "aten::mm", "count": 1.0, "time_us": 20.0}],
    "resources": {"rows": {"registers": 40, "spills": 0, "shared_bytes": 64, "warps": 8}},
}


COUNTED = {name: "1" for name in METRIC}
LOG = log(
    ("_rows", {**COUNTED, "counted_us": "3,000", "dram_throughput_pct": "80", "launch_registers": "99"}),
    ("_rows_total", {**COUNTED, "counted_us": "1,000", "dram_throughput_pct": "40"}),
    ("void at::native::add<4>(int)", COUNTED),
)


def profile(reply, counts=None):
    return GpuProfiler(Replies(reply, counts)).profile(candidate())


def test_counters_stand_beside_times_and_resources():
    found = profile(WORKER, LOG)
    assert (found.kind, found.total_us, found.note) == ("counters", 305.0, "")
    assert [step.name for step in found.steps] == ["rows", "aten.mm", "python"]
    assert set(found.counters) == {"rows", "at::native::add"}
    rows = found.counters["rows"]
    assert (rows["counted_us"], rows["counted_launches"]) == (4.0, 2)
    assert rows["dram_throughput_pct"] == pytest.approx(70.0), "weighted by the time of the launches"
    assert found.static["rows"]["registers"] == 40, "the compiler knows better"
    assert found.static["at::native::add"] == {"registers": 1, "shared_bytes": 2, "warps": 1}


def test_a_refusal_leaves_the_timeline_and_the_remedy():
    found = profile(WORKER, REFUSED)
    assert (found.kind, found.total_us, found.counters) == ("timeline", 305.0, {})
    assert "ERR_NVGPUCTRPERM" in found.note
    assert found.steps


def test_without_ncu_the_profile_is_a_timeline():
    found = profile(WORKER)
    assert found.kind == "timeline"
    assert "ncu is not installed" in found.note


def test_counters_can_be_switched_off():
    evaluator = Replies(WORKER, LOG)
    found = GpuProfiler(evaluator, counters=False).profile(candidate())
    assert (found.kind, found.note, evaluator.counts) == ("timeline", "no counters: switched off", 0)


def test_a_candidate_that_cannot_be_timed_is_not_counted_either():
    evaluator = Replies({"error": "no GPU"}, LOG)
    found = GpuProfiler(evaluator).profile(candidate())
    assert (found.kind, found.counters, evaluator.counts) == ("static", {}, 0)
    assert "no GPU" in found.note


def test_facts_of_the_ptx_stand_among_the_resources():
    text = "\tld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n\tbar.sync 0;\n"
    resources = {"rows": {"registers": 40, "ptx": text}, "broken": {"ptx": 3}}
    found = profile({**WORKER, "resources": resources})
    assert found.static["rows"]["registers"] == 40
    assert (found.static["rows"]["access_bits"], found.static["rows"]["barriers"]) == (128, 1)
    assert found.static["broken"] == {}


def test_device_times_and_resources():
    found = profile(WORKER)
    assert (found.kind, found.total_us) == ("timeline", 305.0)
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
    ("launched", "kernel"),
    [
        ("_rows", "rows"),
        ("rows", "rows"),
        ("_rows_1", "rows"),
        ("_rows_wide_total", "rows_wide"),
        ("_row", ""),
        ("gemm", ""),
    ],
)
def test_a_launch_belongs_to_the_kernel_with_the_longest_fitting_name(launched, kernel):
    assert owner_of(launched, ["rows", "rows_wide"]) == kernel
    assert owner(launched, ["rows", "rows_wide"]) == kernel, "for counters as for times"
