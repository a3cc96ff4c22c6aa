"""The counter table, and what is made of several launches."""

import re

import pytest

from kernelskill.features import CATALOG
from kernelskill.features.catalog import vocabularies
from kernelskill.profiling import counters
from kernelskill.profiling.counters import COUNTERS, LIMITS, STALLS, combined, facts, resources, wanted


def test_names_are_told_once_and_look_like_metrics():
    metrics = [metric for counter in COUNTERS for metric in counter.metrics]
    assert len({counter.name for counter in COUNTERS}) == len(COUNTERS)
    assert len(set(metrics)) == len(metrics)
    for metric in metrics:
        assert re.fullmatch(r"(gpu|sm|smsp|l1tex|lts|dram|launch)__[a-z0-9_]+(\.[a-z_]+)*", metric), metric


def test_every_fact_that_counters_give_is_in_the_catalog():
    values = {counter.name: 1.0 for counter in COUNTERS} | {"counted_launches": 1}
    given = facts(values)
    for name, value in given.items():
        CATALOG[name].check(value)
    assert set(resources(values)) == {"registers", "shared_bytes", "warps"}
    told = {entry.name for entry in CATALOG.values() if entry.origin == "measured" and entry.unit == "%"}
    assert told <= set(given)


def test_vocabularies_are_those_of_the_catalog():
    assert vocabularies()["top_stall"] == STALLS
    assert vocabularies()["occupancy_limiter"] == LIMITS


def test_names_that_do_not_exist_here_give_way_to_the_next():
    asked = wanted({"dram_throughput_pct": 1, "waves": 1})
    assert "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed" in asked
    assert not any("dram__throughput" in name or "waves" in name for name in asked)
    assert len(asked) == len(COUNTERS) - 1, "a counter without another name is not asked for any more"


def test_launches_weigh_by_their_time():
    found = combined(
        [
            {"counted_us": 30.0, "dram_throughput_pct": 90.0, "dram_read": 100.0, "waves": 4.0},
            {"counted_us": 10.0, "dram_throughput_pct": 10.0, "dram_read": 20.0},
        ]
    )
    assert found == {
        "counted_launches": 2,
        "counted_us": 40.0,
        "dram_throughput_pct": pytest.approx(70.0),
        "dram_read": 120.0,
        "waves": 4.0,  # over the launches that have it
    }


def test_launches_without_times_weigh_the_same():
    assert combined([{"issue_pct": 10.0}, {"issue_pct": 30.0}])["issue_pct"] == 20.0


def test_what_is_derived():
    values = {
        "dram_read": 1e6, "dram_written": 5e5, "local_loads": 10.0, "local_stores": 6.0, "conflicts": 30.0,
        "shared_wavefronts": 120.0, "divergent": 5.0, "uniform": 95.0, "stall_long_scoreboard": 50.0,
        "stall_lg_throttle": 5.0, "stall_drain": 1.0, "stall_barrier": 60.0, "limit_registers": 4.0,
        "limit_shared_mem": 3.0, "limit_warps": 3.0, "limit_blocks": 32.0, "launch_threads": 100.0,
        "launch_registers": 40.0, "launch_static": 1000.0, "launch_dynamic": 24.0,
    }  # fmt: skip
    assert facts(values) == {
        "dram_bytes": 1.5e6, "local_bytes": 512.0, "shared_conflict_ratio": 0.25, "divergent_branch_pct": 5.0,
        "top_stall": "barrier", "top_stall_pct": 60.0, "memory_stall_pct": 56.0, "barrier_stall_pct": 60.0,
        "occupancy_limiter": "shared_mem",
    }  # fmt: skip
    assert resources(values) == {"registers": 40, "shared_bytes": 1024, "warps": 4}


def test_what_is_missing_makes_what_rests_on_it_unknown():
    assert facts({"dram_read": 1.0, "divergent": 1.0, "limit_registers": 1.0, "stall_wait": 2.0}) == {
        "top_stall": "wait",
        "top_stall_pct": 2.0,
    }
    assert resources({}) == {}


def test_no_branches_are_no_divergence():
    assert facts({"divergent": 0.0, "uniform": 0.0}) == {"divergent_branch_pct": 0.0}


def test_counters_are_found_by_their_metrics():
    names = [counter.name for counter in counters.counters_of(["dram__bytes_read.sum", "nosuch__thing.sum"])]
    assert names == ["dram_read"]
