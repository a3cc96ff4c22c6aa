"""A candidate's profile on a real GPU: `pytest -m gpu tests/profiling`."""

import sys
from pathlib import Path

import pytest
import torch

from kernelskill import doctor_gpu
from kernelskill.profiling import GpuProfiler
from kernelskill.records import Candidate, Reference, Task

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from profiled_worker import DOUBLE, DOUBLED

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.fixture(scope="module")
def judge():
    from kernelskill.evaluation.cuda.judge import cuda_judge

    reference = Reference(
        loader="source", kind="module", entry="Model", source=DOUBLE, init_entry="get_init_inputs",
        inputs_entry="get_inputs",
    )  # fmt: skip
    found = cuda_judge(Task(name="double", hash="double", origin="double.py", reference=reference))
    found.describe()
    yield found
    found.close()


def test_a_copy_is_bound_by_memory_in_every_view(judge):
    profile = GpuProfiler(judge).profile(Candidate(id="c001", source=DOUBLED))
    assert profile.kind in ("counters", "timeline"), profile.note
    assert profile.steps[0].name == "double"
    assert profile.static["double"]["access_bits"] == 128
    if not doctor_gpu._counters().ok:
        pytest.skip(f"no counters here: {profile.note}")
    assert profile.kind == "counters", profile.note
    counted = profile.counters["double"]
    assert counted["dram_throughput_pct"] > 50
    assert counted["counted_us"] == pytest.approx(profile.steps[0].time_us, rel=0.2)
    assert counted["dram_bytes"] <= 1.1 * 2 * 4 * 4096 * 8192


def test_without_counters_the_same_profile_is_a_timeline(judge):
    profile = GpuProfiler(judge, counters=False).profile(Candidate(id="c001", source=DOUBLED))
    assert profile.kind == "timeline"
    assert profile.steps[0].name == "double"
