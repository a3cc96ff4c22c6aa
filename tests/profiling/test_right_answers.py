"""Recorded kernels before the real gate, held against the table of right answers."""

import pytest
from gated import LIBRARY, admitted, facts, judged
from recorded import KERNELS, Recorded
from right_answers import ANSWERS, FIRST, KINDS


def test_every_recorded_kernel_has_an_answer():
    assert set(FIRST) <= set(KERNELS) <= set(ANSWERS)


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


def test_the_gate_admits_the_right_kind_of_skill():
    wrong = {name: words for name, kernel in KERNELS.items() if (words := judged(kernel))}
    assert not wrong


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_counters_name_the_class_that_was_told(kernel):
    assert kernel.views()[0] == ANSWERS[kernel.name].bound


def test_a_gate_without_counters_admits_only_what_the_clock_shows(monkeypatch):
    monkeypatch.setattr(Recorded, "counter_facts", lambda self: self.about["resources"])
    assert facts(KERNELS["few_rows"]).get("dram_throughput_pct", "k") is None
    assert "share-gpu-rows" in admitted(KERNELS["few_rows"]), "16 programs are far below the bandwidth"
    assert "uniform-control-flow" not in admitted(KERNELS["divergent_loop"]), (
        "lanes that part are counted, not timed"
    )
