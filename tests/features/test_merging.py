"""What merging can save, from the times of the kernels."""

import pytest

from kernelskill.features import ExpertFeatureReader
from kernelskill.features.merging import merge_saving_ratio
from kernelskill.records import Candidate, Ceilings, Evaluation, Floor, Profile, Status, StepProfile, Timing
from kernelskill.skills import ExpertLibrary
from kernelskill.skills.example import calls, grouped

MACHINE = Ceilings(
    device="round numbers", threads=1, bandwidth_gb_per_s={"1000": 10.0}, fp32_gflops=100.0, exp_gops=10.0,
    parallel_us=0.0, call_us=1.0, operator_us=0.5, measured_on="2026-01-01", cache_bytes=4_000_000,
)  # fmt: skip
FLOOR = Floor(
    bytes_min=8_000_000, flops=0, transcendentals=0, launches=2, memory_ms=0.8, compute_ms=0.1, overhead_ms=0.001,
    floor_ms=0.8, bound="memory",
)  # fmt: skip
PAIR = grouped(
    calls(("a", "mul.Tensor", ("x", 0.3)), ("b", "exp.default", ("a",)), shape=(1000, 1000)), {"a"}, {"b"}
)
FIRST, SECOND = (kernel.name for kernel in PAIR.kernels)


def profile(first_us: float, second_us: float, total_us: float) -> Profile:
    steps = tuple(
        StepProfile(name=name, kind="kernel", time_us=time_us, calls=1)
        for name, time_us in ((FIRST, first_us), (SECOND, second_us))
    )
    return Profile(kind="timeline", total_us=total_us, steps=steps, static={})


def test_all_but_the_longest_kernel_might_go():
    assert merge_saving_ratio(profile(300.0, 900.0, 1500.0)) == pytest.approx(300 / 1500)
    assert merge_saving_ratio(profile(10.0, 20.0, 10_000.0)) == pytest.approx(0.001)


def test_a_kernel_alone_saves_nothing():
    seen = Profile(
        kind="timeline", total_us=100.0, static={},
        steps=(
            StepProfile(name="k", kind="kernel", time_us=50.0, calls=1),
            StepProfile(name="mm", kind="operator", time_us=40.0, calls=1),
        ),
    )  # fmt: skip
    assert merge_saving_ratio(seen) == 0


def test_without_times_nothing_is_known():
    assert merge_saving_ratio(None) is None
    assert merge_saving_ratio(profile(1.0, 1.0, 1.0).model_copy(update={"steps": ()})) is None
    assert merge_saving_ratio(profile(1.0, 1.0, 1.0).model_copy(update={"total_us": None})) is None


@pytest.mark.parametrize(
    ("times", "admitted"), [((900.0, 900.0, 1900.0), True), ((10.0, 20.0, 10_000.0), False)]
)
def test_the_gate_weighs_the_pair_against_the_call(times, admitted):
    candidate = Candidate(id="c001", source="", program=PAIR.model_dump(mode="json"))
    ms = times[-1] / 1e3
    judged = Evaluation(
        candidate_id="c001", source_hash="", stage="screen", status=Status.PASSED,
        timings=(Timing(arm="candidate", median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),)),),
    )  # fmt: skip
    read = ExpertFeatureReader(MACHINE).read(candidate, profile(*times), FLOOR, evaluation=judged)
    found = [item for item in ExpertLibrary(None).retrieve(read).decisions if item.skill == "merge-kernels"]
    assert [item.admitted for item in found] == [admitted]
    assert admitted or "merge_saving_ratio >= 0.02 (merge_saving_ratio=0.001 measured)" in found[0].reason


def test_kernels_that_came_as_text_are_weighed_alike():
    seen = profile(10.0, 60.0, 100.0)
    read = ExpertFeatureReader(MACHINE).read(Candidate(id="c001", source=""), seen, FLOOR)
    assert read.get("merge_saving_ratio") == pytest.approx(0.1)
