"""The page holds for every kind of run, believes nobody's text, and needs nothing from elsewhere."""

import re

from written_runs import win

from kernelskill.report import render_page
from well_formed import parsed


def test_every_kind_of_run_has_a_page(run):
    assert run.task.name in parsed(render_page(run))


def test_the_page_loads_nothing(run):
    page = render_page(run)
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?://|<script", page)


def test_text_from_outside_is_escaped():
    page = render_page(win())
    assert "<script>alert" not in page
    assert "error: &#39;&lt;x&gt;&#39; wrong" in page
    assert "&lt;changed&gt;" in page
    assert "gate<b>" not in page


def test_the_chain_names_the_facts_that_admitted_each_round():
    text = parsed(render_page(win()))
    chain = text[text.index("How it got there") : text.index("Attempts")]
    assert "round 1" in chain
    assert "vector_bits_used = 256" in chain
    assert "kernel_bound = latency" in chain
    assert chain.index("c000") < chain.index("c002") < chain.index("c005")
    assert "c003" not in chain


def test_the_tree_gives_each_failure_its_reason():
    text = parsed(render_page(win()))
    tree = text[text.index("Attempts") :]
    assert "build-error: error: '<x>' wrong" in tree
    assert "no significant change over c002" in tree
    assert "same program as c003" in tree


def test_every_baseline_has_its_interval():
    text = parsed(render_page(win()))
    assert "compile (best stock) 2.40x 2.30 – 2.50" in text  # noqa: RUF001
    assert "eager 4.40x 4.20 – 4.60" in text  # noqa: RUF001
