"""Facts as a model reads them: nothing twice, nothing that says nothing, and nothing lost."""

import re

from scripted_model import LIBRARY

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.fact_lines import fact_lines
from kernelskill.records import Fact, Facts


def kernel(name, time_us, rows=32):
    return (
        Fact(name="time_us", value=time_us, origin="measured", unit="us", subject=name),
        Fact(name="rows", value=rows, origin="parsed", subject=name),
        Fact(name="gpu_block", value=0, origin="parsed", unit="elements", subject=name),
    )


def lines(*facts):
    return list(fact_lines(Facts(facts=facts)))


def test_kernels_alike_are_told_once_with_the_range_of_what_was_measured():
    facts = [fact for number in range(12) for fact in kernel(f"gate_{number}", 15.0 + number)]
    assert lines(*facts) == [
        "gate_0 ... gate_11 (12 alike), measured: time_us=15 to 26 us",
        "gate_0 ... gate_11 (12 alike), parsed: rows=32",
    ]


def test_kernels_that_differ_in_anything_but_time_are_told_apart():
    assert lines(*kernel("a", 1.0), *kernel("b", 1.0, rows=64), *kernel("c", 2.0)) == [
        "a and c, measured: time_us=1 to 2 us",
        "a and c, parsed: rows=32",
        "b, measured: time_us=1 us",
        "b, parsed: rows=64",
    ]


def test_zeros_are_left_out_only_where_they_say_nothing():
    told = lines(
        Fact(name="count_norm", value=0, origin="parsed"),
        Fact(name="count_matmul", value=2, origin="parsed"),
        Fact(name="operators_left", value=0, origin="measured"),
        Fact(name="spills", value=0, origin="parsed"),
        Fact(name="in_cache", value=False, origin="parsed"),
        Fact(name="floor_ms", value=None, origin="parsed", unit="ms"),
    )
    assert told == [
        "whole program, measured: operators_left=0",
        "whole program, parsed: count_matmul=2, spills=0, in_cache=False",
    ]


def test_cards_are_read_without_the_code_of_recipes():
    cards = [LIBRARY.card(skill) for skill in ("merge-kernels", "collapse-linear-fold", "privatize-atomics")]
    text = sections.skills_section(cards, None, whole=3).text
    assert "Worked example:" in text
    assert not re.search(r"\b(calls|grouped|propose)\(", text)
    assert "537 MB" in text, "what the example is worth stays"
