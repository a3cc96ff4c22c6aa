"""Dear functions count by their time, not by their number."""

import json
from pathlib import Path

import pytest

from kernelskill.features.function_costs import COSTS
from kernelskill.features.kernel_facts import load_of, measured_facts
from kernelskill.program.scalar import TRANSCENDENTAL
from kernelskill.records import Ceilings, StepProfile
from kernelskill.skills import ExpertLibrary
from kernelskill.skills.example import calls, fused, known

MEASURED = json.loads((Path(__file__).parents[2] / "results" / "function-costs.json").read_text())
MACHINE = Ceilings(
    device="round numbers", threads=1, bandwidth_gb_per_s={"1000": 1000.0}, fp32_gflops=1e5, exp_gops=10.0,
    parallel_us=0.0, call_us=0.1, operator_us=0.1, measured_on="2026-01-01", cache_bytes=4_000_000,
)  # fmt: skip
SHAPE = (1000, 1000)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_costs_are_those_that_were_measured(target):
    assert COSTS[target] == pytest.approx(MEASURED[target], rel=0.06)
    assert set(COSTS[target]) == {*TRANSCENDENTAL, "div", "sqrt", "rsqrt"}


def share(function: str, target: str) -> float:
    """Of a map that takes as long as its functions need on a machine of `MACHINE`'s ceilings."""
    program = fused(calls(("a", f"{function}.default", ("x",)), shape=SHAPE))
    kernel = program.kernels[0]
    time_us = COSTS[target][function] * 1e6 / MACHINE.exp_gops / 1e3
    step = StepProfile(name=kernel.name, kind="kernel", time_us=time_us, calls=1)
    load = load_of(kernel, program.graph, target)
    assert load.transcendentals == 1e6
    return measured_facts(step, load, 0.1, MACHINE, time_us)["exp_share_ratio"]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("function", ["exp", "erf", "log1p", "tanh", "sin"])
def test_a_kernel_of_one_function_reaches_the_ceiling_whatever_the_function(function, target):
    assert share(function, target) == pytest.approx(1.0)


@pytest.mark.parametrize("function", ["erf", "log1p", "tanh"])
def test_cheaper_math_is_offered_to_a_kernel_that_spends_its_time_on_dear_functions(function):
    """At half of the ceiling, where a count of functions would have said a sixth."""
    facts = known(
        whole={"target": "cpu", "floor_share_ratio": 0.5, "wrapper": ""},
        k={
            "kernel_kind": "map", "kernel_bound": "compute", "share_ratio": 0.9, "flops_share_ratio": 0.05,
            "libm_calls": 0, "exp_share_ratio": 0.5 * share(function, "cpu"),
        },
    )  # fmt: skip
    assert "cheaper-math" in ExpertLibrary(None).retrieve(facts).admitted


def test_divisions_and_roots_are_dear_too():
    program = fused(calls(("a", "div.Tensor", ("x", "x")), ("b", "sqrt.default", ("a",)), shape=SHAPE))
    load = load_of(program.kernels[0], program.graph, "cpu")
    assert load.transcendentals == 0
    assert load.exponentials == pytest.approx(1e6 * (COSTS["cpu"]["div"] + COSTS["cpu"]["sqrt"]))
