"""Forty-eight recorded kernels: what is read from ncu's own text, and whether the cheaper views come to the same."""

import pytest
from recorded import DATA, KERNELS, RECORDING

from kernelskill.features.bounds import COLD_US
from kernelskill.profiling import counters, ncu
from kernelskill.profiling.gpu import by_kernel
from kernelskill.profiling.ptx import code_facts
from kernelskill.records import Fact, Facts, Profile
from kernelskill.skills import ExpertLibrary
from kernelskill.skills.bottlenecks import find_bottlenecks
from kernelskill.skills.expression import FactIndex


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_every_counter_was_counted_in_every_launch(kernel):
    for launch in kernel.counted.launches:
        assert set(launch.values) == {counter.name for counter in counters.COUNTERS}
        found = counters.facts({**launch.values, "counted_launches": 1})
        assert all(0 <= value <= 100 for name, value in found.items() if name.endswith("_pct"))


DYNAMIC = {"shared_rows": 4 * 49152}
"""Bytes of shared memory that a kernel in CUDA C++ asks for when it is launched, so that its compiler tells nothing."""


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_counters_and_timeline_tell_the_same_time(kernel):
    counted, timed = kernel.counter_facts()["counted_us"], kernel.timeline_facts()["time_us"]
    # ncu empties the caches before each launch, which a short one feels.
    assert counted == pytest.approx(timed, rel=0.1, abs=COLD_US * kernel.calls)


@pytest.mark.parametrize(
    "kernel", [item for item in KERNELS.values() if item.about["resources"]], ids=lambda k: k.name
)
def test_counters_and_compiler_tell_the_same_resources(kernel):
    values = counters.combined([launch.values for launch in kernel.counted.launches])
    told = {name: kernel.about["resources"][name] for name in ("registers", "shared_bytes", "warps")}
    if kernel.name in DYNAMIC:
        told["shared_bytes"] += DYNAMIC[kernel.name]
    assert counters.resources(values) == told


def agreeing(names):
    """Kernels of which at least two views say something, and all that do say the same."""
    found = {name: [view for view in KERNELS[name].views() if view] for name in names}
    return {name for name, said in found.items() if len(said) >= 2 and len(set(said)) == 1}


PARTING = {
    "max_pool2d": "a library's code spends its time on indices, which neither clock nor mathematics know of",
    "depthwise_conv": "likewise: nine taps with bounds, where the mathematics asks for memory",
    "few_bins": "where atomics go is in the data: counters see that all wait for few words, nothing else can",
    "cross_entropy": "its second launch is one block that waits for 18 of 140 us; the mean of both is near no ceiling",
    "tf32_product": "4 of 5 passes over shared memory are bank conflicts, which only counters tell",
}
"""Kernel -> why its views part."""


def test_the_three_views_name_one_class_for_most_kernels():
    assert set(KERNELS) - agreeing(KERNELS) == set(PARTING)
    assert len(agreeing(KERNELS)) / len(KERNELS) >= 0.8


def test_they_do_so_too_if_mathematics_speaks_for_a_library():
    # That the library's scan fills half the chip cannot be told from its mathematics either.
    views = {name: {*kernel.views()[:2], kernel.by_work()} for name, kernel in KERNELS.items()}
    assert {name for name, said in views.items() if len(said) > 1} == {*PARTING, "cumulative_sum"}


def test_only_a_librarys_code_and_plan_are_silent():
    assert {name for name, kernel in KERNELS.items() if kernel.expected() is None} == {
        name for name, kernel in KERNELS.items() if not kernel.is_ours
    }
    assert all(kernel.views()[0] and kernel.views()[1] for kernel in KERNELS.values())


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_geometry_of_a_launch_gives_the_waves_that_ncu_tells(kernel):
    # A call of several launches is told by its longest one.
    longest = max(kernel.counted.launches, key=lambda launch: launch.values["counted_us"])
    assert kernel.waves == pytest.approx(longest.values["waves"], rel=0.05, abs=0.01)


SEQUENCES = {
    "half_silu": "an exponential and a full division are 3 to 6 instructions each: 75 in PTX, 127 in machine code",
    "dropout": "three operands fit one logical instruction: 610 in PTX, 488 in machine code",
}
"""Kernel -> why an instruction of its PTX is not one of the machine (counted in what ptxas makes of it for sm_90a)."""


def test_instructions_in_ptx_take_the_issue_slots_that_ncu_counts():
    told = {name: kernel.timeline_facts()["issue_share_ratio"] for name, kernel in KERNELS.items()}
    counted = {
        name: KERNELS[name].counter_facts()["issue_pct"] / 100 for name in told if told[name] is not None
    }
    assert {"copy", "gelu", "transposed_copy", "fused_map", "outer_sum"} <= set(counted)
    off = {name for name, share in counted.items() if abs(told[name] - share) > 0.1}
    assert off == set(SEQUENCES)
    assert all(told[name] == pytest.approx(share, abs=0.25) for name, share in counted.items())


@pytest.mark.parametrize(
    ("name", "bound", "top_stall"),
    [
        ("copy", "memory", "long_scoreboard"),
        ("many_exponentials", "compute", "mio_throttle"),
        ("matmul", "compute", "not_selected"),
        ("few_rows", "latency", "long_scoreboard"),
        ("small_add", "overhead", "long_scoreboard"),
    ],
)
def test_classes_and_stalls(name, bound, top_stall):
    facts = KERNELS[name].counter_facts()
    assert (facts["counted_bound"], facts["top_stall"]) == (bound, top_stall)


def found_in(name):
    """Bottlenecks by the counters of one kernel that is all of a call."""
    kernel = KERNELS[name]
    told = {"kernel_kind": "map", "share_ratio": 1.0, **kernel.timeline_facts(), **kernel.counter_facts()}
    told["share_ratio"] = 1.0
    facts = Facts(
        facts=tuple(
            Fact(name=key, value=value, origin="measured", subject="k") for key, value in told.items()
        )
    )
    return {item.name for item in find_bottlenecks(FactIndex(facts), ("k",), ())}


@pytest.mark.parametrize(
    ("name", "bottlenecks"),
    [
        ("copy", {"memory-bandwidth"}),
        ("gelu", {"memory-bandwidth"}),
        ("row_softmax", {"memory-bandwidth"}),
        ("layer_norm", {"memory-bandwidth"}),
        ("full_sum", {"memory-bandwidth", "latency"}),
        ("many_exponentials", {"compute"}),
        ("matmul", {"compute", "register-pressure", "access-pattern"}),
        ("conv2d", {"compute", "register-pressure"}),
        ("few_rows", {"latency"}),
        ("strided_sum", {"latency"}),
        ("cumulative_sum", {"latency", "access-pattern"}),
        ("row_softmax_few_warps", {"memory-bandwidth", "latency", "register-pressure"}),
        ("transposed_copy", {"memory-bandwidth", "access-pattern"}),
        ("gather", {"memory-bandwidth", "access-pattern"}),
        ("bank_conflicts", {"memory-bandwidth", "latency", "access-pattern"}),
        ("divergent_loop", {"compute", "divergence"}),
        ("max_pool2d", {"memory-bandwidth", "compute", "access-pattern", "divergence"}),
        ("small_add", {"launch-overhead"}),
    ],
)
def test_signatures_find_what_holds_each_kernel_back(name, bottlenecks):
    assert found_in(name) == bottlenecks


def decisions(name, kind):
    """What the gate says of each skill for one kernel of a program that is far from its floor, by counters and class."""
    bound = KERNELS[name].timeline_facts()["kernel_bound"]
    values = {"kernel_kind": kind, "share_ratio": 0.9, "kernel_bound": bound, **KERNELS[name].counter_facts()}
    program = {"target": "cuda", "floor_share_ratio": 0.3, "wrapper": ""}
    told = [Fact(name=key, value=value, origin="measured", subject="k") for key, value in values.items()]
    told += [Fact(name=key, value=value, origin="parsed") for key, value in program.items()]
    found = ExpertLibrary(None, device="H200").retrieve(Facts(facts=tuple(told))).decisions
    return {item.skill: item for item in found if item.subject == "k"}


@pytest.mark.parametrize(
    ("name", "kind", "skill", "counter"),
    [
        ("few_rows", "reduce", "share-gpu-rows", "waves"),
        ("few_rows", "reduce", "choose-gpu-warps", "achieved_occupancy_pct"),
        ("strided_sum", "strided", "batch-gpu-rows", "dram_throughput_pct"),
        ("row_softmax_few_warps", "row", "choose-gpu-warps", "achieved_occupancy_pct"),
        ("transposed_copy", "map", "coalesce-access", "store_use_pct"),
        ("gather", "map", "coalesce-access", "load_use_pct"),
        ("divergent_loop", "map", "uniform-control-flow", "divergent_branch_pct"),
    ],
)
def test_a_counter_alone_admits_the_skill_that_an_expert_would_think_of(name, kind, skill, counter):
    decision = decisions(name, kind)[skill]
    assert decision.admitted, decision.reason
    assert counter in decision.facts


def test_a_counter_that_is_well_admits_nothing():
    admitted = {skill for skill, item in decisions("copy", "row").items() if item.admitted}
    assert "share-gpu-rows" not in admitted
    assert "coalesce-access" not in admitted
    assert "uniform-control-flow" not in admitted


def test_the_whole_log_of_a_confined_worker_gives_the_profile_that_was_made_of_it():
    text = (DATA / "whole.csv").read_text()
    counted = ncu.read_log(text, counters.wanted({}))
    assert counted.fault is None
    found = by_kernel(counted.launches, ("double",))
    profile = Profile.model_validate(RECORDING["profile"])
    assert profile.kind == "counters"
    assert set(found) == set(profile.counters) == {"double"}
    now = counters.facts(found["double"])
    assert {name: now[name] for name in profile.counters["double"]} == profile.counters["double"]


def test_recorded_ptx():
    assert code_facts((DATA / "copy.ptx").read_text()) == {
        "global_accesses": 4, "async_copies": 0, "matrix_instructions": 0, "atomics": 0, "barriers": 0,
        "local_accesses": 0, "special_functions": 0, "access_bits": 128,
        "instructions": 33, "loops": 0, "stored_bytes": 32,
    }  # fmt: skip
    assert code_facts((DATA / "gather.ptx").read_text())["global_accesses"] == 12, "one load for each element"
