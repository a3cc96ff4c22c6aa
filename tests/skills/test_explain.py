"""The gate's answer in words: nothing is left out, and every fact has its origin."""

from skill_examples import KERNEL, PROGRAM, facts_of

from kernelskill.skills import ExpertLibrary, explain

LIBRARY = ExpertLibrary(None, device="test machine")
FACTS = facts_of(
    {**PROGRAM, "count_softmax": 2}, k1=KERNEL, k2={**KERNEL, "share_ratio": 0.3, "kernel_kind": "row"}
)
RETRIEVAL = LIBRARY.retrieve(FACTS)


def test_headroom_ranked_bottlenecks_and_structure_come_first():
    lines = explain(RETRIEVAL, FACTS).splitlines()
    assert lines[0] == "headroom     high (floor_share_ratio=0.5 measured)"
    assert lines[1].startswith("bottlenecks  1. memory-bandwidth (weight 0.9 on k1, k2)")
    structure = next(line for line in lines if line.startswith("structure"))
    assert "2 softmax" in structure
    assert "kernels k1 (map), k2 (row)" in structure


def test_admissions_are_ranked_and_tell_places_facts_and_expectation():
    lines = explain(RETRIEVAL, FACTS).splitlines()
    ranked = [line.split()[1].rstrip(",") for line in lines if line[:5].strip().rstrip(".").isdigit()]
    assert ranked == list(RETRIEVAL.admitted)
    text = " ".join(explain(RETRIEVAL, FACTS).split())
    assert (
        "k1: kernel_bound == 'memory' (kernel_bound=memory measured), not in_cache (in_cache=False parsed)"
        in text
    )
    assert "relieves memory-bandwidth" in text


def test_every_decision_is_told():
    text = " ".join(explain(RETRIEVAL, FACTS, refusals="each").split())
    for item in RETRIEVAL.decisions:
        where = f"{item.skill} on {item.subject}" if item.subject else item.skill
        assert (where if not item.admitted else item.skill) in text
        assert " ".join(item.reason.split()) in text
    grouped = " ".join(explain(RETRIEVAL, FACTS).split())
    assert all(item.skill in grouped for item in RETRIEVAL.decisions)
    assert len(grouped) < len(text)


def test_refusals_can_be_left_out_and_lines_are_readable():
    assert "refused" not in explain(RETRIEVAL, FACTS, refusals="none")
    assert max(map(len, explain(RETRIEVAL, FACTS).splitlines())) <= 120


def test_nothing_known_is_said():
    nothing = facts_of({})
    text = explain(LIBRARY.retrieve(nothing), nothing)
    assert "headroom     unknown (no measured time to set against the floor)" in text
    assert "bottlenecks  none found" in text
    assert "structure    nothing known" in text
    assert "admitted     no skill" in text
