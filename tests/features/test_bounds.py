"""What a kernel is expected to wait for before it has run, by its work and its plan."""

import pytest

from kernelskill.features.bounds import (
    FULL_WARPS,
    counted_facts,
    expected_bound,
    fill_ratio,
    issue_us,
    waves_ratio,
)
from kernelskill.features.kernel_facts import Load, launch_us, measured_facts
from kernelskill.program import Kernel, Region, Schedule
from kernelskill.program.region import Axis, Op, Operand, Reduction, Stage, Store
from kernelskill.program.schedule import GpuSchedule
from kernelskill.records import Ceilings, StepProfile, TensorSpec

MACHINE = Ceilings(
    device="round numbers", threads=1, bandwidth_gb_per_s={"1000": 1000.0}, fp32_gflops=10_000.0, exp_gops=1000.0,
    parallel_us=0.0, call_us=2.0, operator_us=5.0, measured_on="2026-01-01",
)  # fmt: skip


def sums(rows: int, length: int, **gpu: int) -> Kernel:
    region = Region(
        axes=(Axis(size=rows, role="parallel"), Axis(size=length, role="reduce")),
        inputs=(Operand(name="x", dtype="float32", strides=(length, 1)),),
        outputs=(Operand(name="y", dtype="float32", strides=(1, 0)),),
        stages=(
            Stage(
                kind="reduce",
                ops=(Op(name="a", fn="load", args=("x",)),),
                reductions=(Reduction(name="s", fold="sum", value="a"),),
            ),
            Stage(kind="scalar", ops=(Op(name="r", fn="mul", args=(1.0, "s")),), stores=(Store(operand="y", value="r"),)),
        ),
    )  # fmt: skip
    spec = TensorSpec.contiguous((rows,))
    return Kernel(name="sums", body=region, schedule=Schedule(gpu=GpuSchedule(**gpu)), outputs=(spec,))


def load(read: int = 0, flops: int = 0) -> Load:
    return Load(read_bytes=read, written_bytes=0, transcendentals=0, flops=flops)


def test_many_rows_fill_a_gpu_and_few_do_not_unless_they_are_shared():
    assert fill_ratio(sums(20_000, 4096)) > 1
    assert fill_ratio(sums(16, 4096, split=1)) < 0.1
    assert fill_ratio(sums(16, 1 << 20, split=64)) > 1


def test_warps_as_compiled_go_before_those_that_were_planned():
    assert fill_ratio(sums(1000, 4096), 4) == pytest.approx(1000 * 4 / FULL_WARPS)


@pytest.mark.parametrize(
    ("work", "fill", "bound"),
    [
        (load(read=100_000_000), None, "memory"),
        (load(read=100_000_000), 0.5, "memory"),
        (load(read=100_000_000), 0.05, "latency"),
        (load(read=1_000_000, flops=10**9), None, "compute"),
        (load(read=1000), 0.05, "overhead"),
    ],
)
def test_what_takes_longest(work, fill, bound):
    assert expected_bound(work, 2.0, MACHINE, fill) == bound


MAP = Load(read_bytes=4_000_000, written_bytes=4_000_000, transcendentals=0, flops=0)
CODE = {"instructions": 320, "loops": 0, "stored_bytes": 32}


def test_instructions_of_a_map_take_as_long_as_its_threads_need_to_issue_them():
    # 125,000 threads of 320 instructions, 8 of which take as long as one of 1e12 exponentials a second.
    assert issue_us(CODE, MAP, MACHINE) == pytest.approx(125_000 * 320 / 8e12 * 1e6)


@pytest.mark.parametrize("change", [{"loops": 1}, {"stored_bytes": 0}, {"instructions": None}])
def test_nothing_is_said_of_code_that_may_run_more_often_or_is_not_known(change):
    assert issue_us(CODE | change, MAP, MACHINE) is None


def test_many_instructions_make_a_map_compute_bound_before_and_after_it_ran():
    assert expected_bound(MAP, 2.0, MACHINE, None, 5.0) == "memory"
    assert expected_bound(MAP, 2.0, MACHINE, None, 12.0) == "compute"
    step = StepProfile(name="k", kind="kernel", time_us=16.0, calls=1)
    found = measured_facts(step, MAP, 2.0, MACHINE, 16.0, is_map=True, issued_us=12.0)
    assert (found["kernel_bound"], found["issue_share_ratio"]) == ("compute", 0.75)


def test_a_launch_that_fills_the_chip_and_is_near_no_ceiling_lacks_throughput_and_a_smaller_one_waits():
    step = StepProfile(name="k", kind="kernel", time_us=100.0, calls=1)
    bounds = [
        measured_facts(step, load(read=10_000_000), 2.0, MACHINE, None, waves=waves)["kernel_bound"]
        for waves in (None, 0.5, 1.0)
    ]
    assert bounds == ["latency", "latency", "memory"]


def test_waves_count_the_warps_that_fit():
    assert waves_ratio(0.5, 0.25) == 2.0
    assert waves_ratio(None, 0.25) is None
    assert waves_ratio(0.5, None) is None


GPU = MACHINE.model_copy(update={"tf32_gflops": 30_000.0})


def test_a_launch_on_a_gpu_costs_no_allocation():
    kernel = sums(1000, 4096)
    assert launch_us(kernel, GPU) == GPU.call_us
    assert launch_us(kernel, MACHINE) == MACHINE.call_us + MACHINE.operator_us


@pytest.mark.parametrize(
    ("machine", "time_us", "bound"),
    [(GPU, 4.5, "overhead"), (GPU, 6.0, "latency"), (MACHINE, 4.5, "latency")],
)
def test_a_brief_launch_that_is_near_no_ceiling_is_start_and_end_on_a_gpu(machine, time_us, bound):
    step = StepProfile(name="k", kind="kernel", time_us=time_us, calls=1)
    assert measured_facts(step, load(read=1_000_000), 1.0, machine, None)["kernel_bound"] == bound


COUNTS = {
    "counted_us": 100.0, "counted_launches": 1, "dram_throughput_pct": 2.0, "l2_throughput_pct": 4.0,
    "l1_throughput_pct": 99.0, "sm_throughput_pct": 7.0, "waves": 31.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ({}, "memory"),
        ({"waves": 0.1}, "latency"),  # a few busy multiprocessors are no busy chip
        ({"l1_throughput_pct": 20.0}, "latency"),
        ({"sm_throughput_pct": 100.0}, "compute"),
        ({"counted_us": 4.0, "l1_throughput_pct": 20.0}, "overhead"),
        ({"counted_us": 6.5, "l1_throughput_pct": 20.0}, "overhead"),  # under 5 us on warm caches
        ({"counted_us": 7.0, "l1_throughput_pct": 20.0}, "latency"),
        ({"l1_throughput_pct": 87.0, "sm_throughput_pct": 86.7, "issue_pct": 90.0}, "compute"),
        ({"waves": 0.1, "issue_pct": 90.0}, "latency"),
        ({"counted_us": 4.0, "dram_throughput_pct": 80.0}, "memory"),
        ({"waves": None, "l1_throughput_pct": None}, "latency"),
    ],
)
def test_counters_name_the_busiest_part_of_the_whole_chip(change, bound):
    assert counted_facts(COUNTS | change, None)["counted_bound"] == bound
