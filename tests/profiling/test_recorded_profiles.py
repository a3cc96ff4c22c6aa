"""Eighteen recorded kernels: what is read from ncu's own text, and whether the cheaper views come to the same."""

import pytest
from recorded import DATA, KERNELS, RECORDING

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


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_counters_and_timeline_tell_the_same_time(kernel):
    counted, timed = kernel.counter_facts()["counted_us"], kernel.timeline_facts()["time_us"]
    # ncu's caches are cold, which a short kernel feels.
    assert counted == pytest.approx(timed, rel=0.1, abs=1.5)


@pytest.mark.parametrize(
    "kernel", [item for item in KERNELS.values() if item.about["resources"]], ids=lambda k: k.name
)
def test_counters_and_compiler_tell_the_same_resources(kernel):
    values = counters.combined([launch.values for launch in kernel.counted.launches])
    told = {name: kernel.about["resources"][name] for name in ("registers", "shared_bytes", "warps")}
    assert counters.resources(values) == told


def test_cheaper_views_name_the_class_that_counters_name_for_most_kernels():
    counted = {name: kernel.counter_facts()["counted_bound"] for name, kernel in KERNELS.items()}
    timeline = {name: kernel.timeline_facts()["kernel_bound"] for name, kernel in KERNELS.items()}
    expected = {name: kernel.expected() for name, kernel in KERNELS.items()}
    # What only counters see: index arithmetic, branches, sectors that nobody asked for.
    assert {name for name in KERNELS if timeline[name] != counted[name]} == {
        "max_pool2d",
        "divergent_loop",
        "gather",
    }
    # What only running shows: bank conflicts, and a library's scan that fills half the chip.
    assert {name for name in KERNELS if expected[name] != counted[name]} == {
        "bank_conflicts", "cumulative_sum", "max_pool2d",
    }  # fmt: skip
    for view in (timeline, expected):
        agreeing = sum(view[name] == counted[name] for name in KERNELS)
        assert agreeing / len(KERNELS) >= 0.8


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
        ("transposed_copy", {"memory-bandwidth", "latency", "access-pattern"}),
        ("gather", {"memory-bandwidth", "latency", "access-pattern"}),
        ("bank_conflicts", {"latency", "access-pattern"}),
        ("divergent_loop", {"latency", "compute", "divergence"}),
        ("max_pool2d", {"latency", "compute", "access-pattern", "divergence"}),
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
    }  # fmt: skip
    assert code_facts((DATA / "gather.ptx").read_text())["global_accesses"] == 12, "one load for each element"
