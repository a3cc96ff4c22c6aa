"""Kernels that share a printed function share what was measured of it."""

from __future__ import annotations

from kernelskill.features.equal_kernels import of_each_kernel
from kernelskill.program import Kernel, Region
from kernelskill.program.region import Axis, Op, Operand, Stage, Store
from kernelskill.records import Profile, StepProfile, TensorSpec


def kernel(name, fn="tanh"):
    """A map of one operand, which is called as the kernel is."""
    return Kernel(
        name=name,
        body=Region(
            axes=(Axis(size=64, role="parallel"),),
            inputs=(Operand(name=f"{name}_x", dtype="float32", strides=(1,)),),
            outputs=(Operand(name="out", dtype="float32", strides=(1,)),),
            stages=(
                Stage(
                    kind="map",
                    ops=(Op(name="v", fn="load", args=(f"{name}_x",)), Op(name="y", fn=fn, args=("v",))),
                    stores=(Store(operand="out", value="y"),),
                ),
            ),
        ),
        outputs=(TensorSpec.contiguous((64,)),),
    )


KERNELS = (kernel("a"), kernel("b"), kernel("c", "exp"), kernel("d"))


def step(name, time_us, calls=1, kind="kernel"):
    return StepProfile(name=name, kind=kind, time_us=time_us, calls=calls, one_thread_us=2 * time_us)


def test_time_under_the_printed_name_is_shared_out():
    profile = Profile(
        kind="timeline", total_us=100.0, steps=(step("a", 30.0, 3), step("c", 5.0), step("aten.mm", 9.0, kind="operator")),
        static={"a": {"spills": 2}, "c": {"spills": 0}}, counters={"a": {"registers": 40}},
    )  # fmt: skip
    shared = of_each_kernel(profile, KERNELS)
    steps = {item.name: item for item in shared.steps}
    assert {name: (item.time_us, item.calls, item.one_thread_us) for name, item in steps.items()} == {
        "a": (10.0, 1, 20.0), "b": (10.0, 1, 20.0), "d": (10.0, 1, 20.0), "c": (5.0, 1, 10.0), "aten.mm": (9.0, 1, 18.0),
    }  # fmt: skip
    assert sum(item.time_us for item in shared.steps) == sum(item.time_us for item in profile.steps)
    assert {name: facts["spills"] for name, facts in shared.static.items()} == {
        "a": 2,
        "b": 2,
        "d": 2,
        "c": 0,
    }
    assert set(shared.counters) == {"a", "b", "d"}


def test_times_of_their_own_stay():
    profile = Profile(kind="timeline", total_us=9.0, steps=(step("a", 3.0), step("b", 4.0), step("d", 1.0)))
    assert of_each_kernel(profile, KERNELS).steps == profile.steps
    assert of_each_kernel(profile, KERNELS[2:3]) == profile
