"""Divisions that a place costs, in the text that is printed."""

import pytest

from kernelskill.features.index_arithmetic import index_divisions, told_divisions
from kernelskill.program.program import Kernel
from kernelskill.skills.example import calls, fused


def added(shape, other) -> Kernel:
    """x + b, with b broadcast from another shape."""
    return fused(calls(("a", "add.Tensor", ("x", "b")), shape=shape, state={"b": other})).kernels[0]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("other", [(4096, 1024), (1024,), (4096, 1)])
def test_a_map_whose_places_are_lines_has_none(target, other):
    assert index_divisions(added((4096, 1024), other), target) == 0


def test_lanes_of_a_gpu_part_their_place_themselves():
    broadcast = added((64, 56, 60, 250), (56, 1, 250))
    assert index_divisions(broadcast, "cuda") == 3, (
        "a remainder for the last axis, one of each for the second"
    )


def test_a_processor_parts_a_row_once():
    long, short = added((64, 56, 60, 250), (56, 1, 250)), added((64, 56, 60, 3), (56, 1, 3))
    assert index_divisions(long, "cpu") == pytest.approx(10 / 250)
    assert index_divisions(short, "cpu") == pytest.approx(10 / 3)


def test_what_is_the_same_in_all_lanes_is_not_counted():
    """Rows of a fold are parted by the program's number alone."""
    summed = fused(calls(("s", "sum.dim_IntList", ("x", (1,)), (64, 60)), shape=(64, 56, 60))).kernels[0]
    assert index_divisions(summed, "cuda") == 0


def test_a_kernel_in_cuda_is_not_read_as_triton():
    kernel = fused(
        calls(("m", "amax.default", ("x", (1,), True), (64, 1)), ("d", "sub.Tensor", ("x", "m")))
    ).kernels[0]
    gpu = kernel.schedule.gpu.model_copy(update={"cluster": 2})
    clustered = kernel.model_copy(update={"schedule": kernel.schedule.model_copy(update={"gpu": gpu})})
    assert index_divisions(clustered, "cuda") is None


TOLD = """
import triton
import triton.language as tl

@triton.jit
def parted(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    row = start // width
    place = start + tl.arange(0, BLOCK)
    for step in range(2):
        column = place % width
        x = tl.load(x_ptr + row * width + place // width + column)
    tl.store(y_ptr + place, x)

def wrapper(x):
    return x.shape[0] // 2
"""


def test_a_function_of_triton_that_came_as_text_is_read_alike():
    assert told_divisions(TOLD, "parted") == 2
    assert told_divisions(TOLD, "wrapper") is None
    assert told_divisions(TOLD, "missing") is None
    assert told_divisions("KERNELS = 'void k() {}", "k") is None
