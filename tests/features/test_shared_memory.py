"""Bank conflicts, read off CUDA C++."""

from pathlib import Path

import pytest

from kernelskill.features import ExpertFeatureReader
from kernelskill.features.shared_memory import bank_ways
from kernelskill.records import Candidate, Ceilings, Floor, Profile, StepProfile

KERNEL = """
#define TILE 32
__global__ void other(float* y) {{ __shared__ float tile[32][32]; y[0] = tile[threadIdx.x][0]; }}
__global__ void turn(const float* x, float* y, int n) {{
  __shared__ {kind} tile[TILE][{row}];  // tile[threadIdx.x][0] in a comment is none
  const int row = threadIdx.x / 32;
  const int column = threadIdx.x % 32;
  for (int i = 0; i < TILE; i += 8) tile[threadIdx.y + i][threadIdx.x] = x[i * n];
  __syncthreads();
  y[n] = tile{read};
}}
"""


def ways(read: str, row: str = "TILE", kind: str = "float") -> int | None:
    return bank_ways(KERNEL.format(read=read, row=row, kind=kind), "turn")


@pytest.mark.parametrize(
    ("read", "row", "expected"),
    [
        ("[threadIdx.y][threadIdx.x]", "TILE", 1),
        ("[threadIdx.x][threadIdx.y]", "TILE", 32),
        ("[threadIdx.x][threadIdx.y]", "TILE + 1", 1),
        ("[threadIdx.x][threadIdx.y]", "TILE + 4", 4),
        ("[threadIdx.x][threadIdx.x ^ threadIdx.y]", "TILE", 1),
        ("[column][row]", "TILE", 32),
        ("[threadIdx.x / 4][0]", "TILE", 8),
        ("[0][threadIdx.x * 2]", "2 * TILE", 2),
        ("[blockIdx.x][3]", "TILE", 1),
    ],
)
def test_lanes_that_meet_in_a_bank(read, row, expected):
    assert ways(read, row) == expected


@pytest.mark.parametrize(("kind", "expected"), [("double", 1), ("half", 1), ("float4", 1)])
def test_wide_elements_take_the_turns_that_they_need_anyway(kind, expected):
    assert ways("[threadIdx.y][threadIdx.x]", kind=kind) == expected


@pytest.mark.parametrize(
    "read", ["[threadIdx.x * n][0]", "[places[threadIdx.x]][0]", "[lane()][0]", "[unheard][0]"]
)
def test_an_access_that_cannot_be_followed_says_nothing(read):
    assert ways(read) == 1, "that of the other access alone"


def test_no_such_kernel_and_no_shared_memory():
    assert bank_ways(KERNEL.format(read="[0][0]", row="TILE", kind="float"), "missing") is None
    assert bank_ways("__global__ void k(float* y) { y[threadIdx.x] = 0; }", "k") is None
    assert bank_ways("", "k") is None


def test_the_kernel_that_counters_were_read_of_is_seen_through():
    benchmarks = Path(__file__).parents[2] / "benchmarks" / "profiled_cuda.py"
    assert bank_ways(benchmarks.read_text(), "conflicts") == 32


def test_a_version_that_came_as_text_has_the_fact():
    machine = Ceilings(
        device="d", threads=1, bandwidth_gb_per_s={"1000": 4000.0}, fp32_gflops=1e5, exp_gops=4000.0, parallel_us=0.0,
        call_us=1.0, operator_us=5.0, measured_on="2026-01-01", tf32_gflops=4e5,
    )  # fmt: skip
    floor = Floor(
        bytes_min=8, flops=0, transcendentals=0, launches=1, memory_ms=1.0, compute_ms=0.0, overhead_ms=0.0,
        floor_ms=1.0, bound="memory",
    )  # fmt: skip
    text = KERNEL.format(read="[threadIdx.x][threadIdx.y]", row="TILE", kind="float")
    seen = Profile(
        kind="timeline",
        total_us=9.0,
        static={},
        steps=(StepProfile(name="turn", kind="kernel", time_us=8.0, calls=1),),
    )
    read = ExpertFeatureReader(machine, "cuda").read(Candidate(id="c001", source=text), seen, floor)
    assert read.get("shared_bank_ways", "turn") == 32
