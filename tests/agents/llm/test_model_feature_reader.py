"""Judged facts: only for what has no program, only those asked for, and what follows from them and the clock."""

import json

import pytest
from scripted_model import CEILINGS, scene

from kernelskill.agents.llm import ModelFeatureReader
from kernelskill.features import ExpertFeatureReader
from kernelskill.records import Baselines, Candidate, Floor, Profile, StepProfile, Timing

FLOOR = Floor(
    bytes_min=524288, flops=1e6, transcendentals=65536, launches=3, memory_ms=0.03, compute_ms=0.0, overhead_ms=0.0,
    floor_ms=0.03, bound="memory",
)  # fmt: skip
WRITTEN = Candidate(id="c001", source="class ModelNew: pass\n\n\ndef bell(x):\n    _mm256_stream_ps(x)\n")
PROFILE = Profile(
    kind="timeline", total_us=400.0,
    steps=(
        StepProfile(name="bell", kind="kernel", time_us=300.0, calls=1, one_thread_us=310.0),
        StepProfile(name="aten.add.Tensor", kind="operator", time_us=60.0, calls=1),
        StepProfile(name="python", kind="overhead", time_us=40.0, calls=1),
    ),
)  # fmt: skip
COUNTS = {"kernel_kind": "row", "rows": 64, "row_length": 1024, "inner_length": 1024, "passes": 2,
          "bytes": 524288, "transcendentals": 65536, "flops": 262144}  # fmt: skip


def told(**values):
    return json.dumps(
        {"facts": [{"name": name, "value": value, "subject": "bell"} for name, value in values.items()]}
    )


def read(here, candidate=WRITTEN, profile=PROFILE, **more):
    return ModelFeatureReader(here, ExpertFeatureReader(CEILINGS, "cpu")).read(
        candidate, profile, FLOOR, **more
    )


def test_judged_facts_and_the_clock_give_what_holds_a_kernel_back():
    facts = read(scene(told(**COUNTS)))
    assert facts.get("kernel_kind", "bell") == "row"
    assert facts.get("kernel_bound", "bell") == "latency"
    assert facts.get("bandwidth_gb_per_s", "bell") == pytest.approx(524288 / 300 / 1e3)
    judged = {fact.name for fact in facts.facts if fact.origin == "judged"}
    assert set(COUNTS) <= judged
    assert facts.get("parallel_efficiency_ratio", "bell") == pytest.approx(310 / 600)


def test_what_the_profile_and_the_text_tell_is_not_asked():
    here = scene(told(**COUNTS))
    facts = read(here)
    origins = {(fact.name, fact.subject): fact.origin for fact in facts.facts}
    assert origins["time_us", "bell"] == "measured"
    assert facts.get("operators_left") == 1
    assert facts.get("count_elementwise") == 1
    assert facts.get("share_ratio", "aten.add.Tensor") == pytest.approx(0.15)
    assert facts.get("schedule_nontemporal", "bell") is True
    assert facts.get("wrapper") == ""
    assert facts.get("hot_ms") == pytest.approx(0.4)
    assert len(here.model.calls) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"time_us": 1.0}, "not one of the facts asked for"),
        ({"kernel_kind": "spiral"}, "must be one of"),
        ({"rows": "many"}, "must be a int"),
        ({"rows": -1}, "at least"),
    ],
)
def test_what_cannot_be_is_told_and_asked_again(values, said):
    here = scene(told(**values), told(**COUNTS))
    assert read(here).get("rows", "bell") == 64
    assert said in here.model.calls[1][2][-1].text


def test_facts_of_other_kernels_are_refused():
    other = told(**COUNTS).replace("bell", "other")
    here = scene(other, told(rows=64))
    assert read(here).get("rows", "bell") == 64
    assert "not one of the kernels: bell" in here.model.calls[1][2][-1].text


def test_a_partial_answer_gives_no_derived_facts():
    facts = read(scene(told(rows=64)))
    assert facts.get("kernel_bound", "bell") is None


def test_without_a_usable_answer_the_rest_stands():
    facts = read(scene("?", "?", "?"))
    assert facts.get("time_us", "bell") == 300.0
    assert facts.get("rows", "bell") is None


def test_nothing_timed_nothing_asked():
    here = scene()
    read(here, profile=Profile(kind="static", total_us=None, steps=()))
    read(here, profile=None)
    assert here.model.calls == []


def test_a_compiled_wrapper_is_seen_in_the_text():
    wrapped = WRITTEN.model_copy(update={"source": "class ModelNew: x = torch.compile(f)\n"})
    assert read(scene(told(**COUNTS)), candidate=wrapped).get("wrapper") == "compile"


def test_the_bar_is_told():
    stock = Timing(arm="compile", median_ms=0.5, p10_ms=0.5, p90_ms=0.5, samples_ms=((0.5,),))
    bar = Baselines(timings=(stock,), best_arm="compile", noise_band_ratio=0.02, null_ms=0.0)
    assert read(scene(told(**COUNTS)), baselines=bar).get("stock_compile_ms") == 0.5
