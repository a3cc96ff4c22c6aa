"""Recorded kernels before the real gate, held against the table of right answers."""

import pytest
from gated import LIBRARY, admitted, facts, judged
from recorded import KERNELS, Recorded
from right_answers import ANSWERS, KINDS


def test_every_recorded_kernel_has_an_answer():
    assert set(KERNELS) == set(ANSWERS)


def test_kinds_are_made_of_skills_that_exist_and_share_none():
    known = {card.id for card in LIBRARY.cards()}
    members = [skill for kind in KINDS.values() for skill in kind]
    assert set(members) <= known
    assert len(members) == len(set(members))


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_no_gate_that_admits_all_or_nothing_is_right(answer):
    assert answer.wanted
    assert answer.unwanted
    assert not set(answer.wanted) & set(answer.unwanted)
    assert {*answer.wanted, *answer.unwanted} <= set(KINDS)


MISSES = {
    "tall_product": "at 82 % of its floor: another tile may gain up to 1.22x, so the gate does not say leave it",
}
"""Kernel -> why the gate is not right about it."""


def test_the_gate_admits_the_right_kind_of_skill():
    wrong = {name: words for name, kernel in KERNELS.items() if (words := judged(kernel))}
    assert set(wrong) == set(MISSES), wrong


OTHERWISE_BOUND = {
    "cross_entropy": (
        "latency",
        "13 % of its time is a launch of one block, and the other runs at half of the peaks",
    ),
    "tf32_product": ("memory", "the first level is busy to 90 % with bank conflicts, tensor cores to 17 %"),
}
"""Kernel -> class by counters that is not the one that was told, and why."""


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_counters_name_the_class_that_was_told(kernel):
    told = ANSWERS[kernel.name].bound
    counted = OTHERWISE_BOUND.get(kernel.name, (told,))[0]
    assert kernel.views()[0] == counted
    assert (counted == told) == (kernel.name not in OTHERWISE_BOUND)


def test_a_gate_without_counters_admits_only_what_the_clock_shows(monkeypatch):
    monkeypatch.setattr(Recorded, "counter_facts", lambda self: self.about["resources"])
    assert facts(KERNELS["few_rows"]).get("dram_throughput_pct", "k") is None
    assert "share-gpu-rows" in admitted(KERNELS["few_rows"]), "16 programs are far below the bandwidth"
    assert "uniform-control-flow" not in admitted(KERNELS["divergent_loop"]), (
        "lanes that part are counted, not timed"
    )
