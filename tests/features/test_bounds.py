"""What a kernel is expected to wait for before it has run, by its work and its plan."""

import pytest

from kernelskill.features.bounds import FULL_WARPS, expected_bound, fill_ratio
from kernelskill.features.kernel_facts import Load
from kernelskill.program import Kernel, Region, Schedule
from kernelskill.program.region import Axis, Op, Operand, Reduction, Stage, Store
from kernelskill.program.schedule import GpuSchedule
from kernelskill.records import Ceilings, TensorSpec

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
