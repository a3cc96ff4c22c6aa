"""What a library without its gate, or without all that it knows, still does, and no longer does."""

import pytest
from skill_examples import KERNEL, PROGRAM, facts_of, program_of, write_skill

from kernelskill.skills import EvidenceStore, ExpertLibrary, library_without

FACTS = facts_of(PROGRAM, k1={**KERNEL, "kernel_bound": "compute"}, k2=KERNEL)


def opened(parts, tmp_path, store=None):
    return library_without(parts)(store, extra=[tmp_path / "extra"], device="machine")


@pytest.fixture(autouse=True)
def two_skills(tmp_path):
    write_skill(tmp_path / "extra", "small", prior=0.1)
    write_skill(tmp_path / "extra", "large", prior=0.5)


def sites(library, skill="large"):
    program = program_of("k1", "k2").model_dump(mode="json")
    return sorted(edit.site for edit in library.propose(skill, program, FACTS))


def test_with_everything_the_gate_refuses_a_kernel(tmp_path):
    library = opened((), tmp_path)
    assert type(library) is ExpertLibrary
    assert sites(library) == ["k2"]


@pytest.mark.parametrize("part", ["gate", "long-term"])
def test_without_the_gate_every_recipe_may_change_what_it_fits(tmp_path, part):
    library = opened((part,), tmp_path)
    assert sites(library) == ["k1", "k2"]
    recipes = {card.id for card in library.cards() if card.recipe}
    assert recipes <= set(library.retrieve(FACTS).admitted)


@pytest.mark.parametrize("part", ["gate", "long-term"])
def test_without_the_gate_knowledge_of_this_device_is_offered_too(tmp_path, part):
    """But that nothing is left to do is no change, and what a GPU needs cannot be carried out on a CPU."""
    library = opened((part,), tmp_path)
    knowledge = {card.id for card in library.cards() if not card.recipe}
    here = {card.id for card in library.cards() if "cpu" in card.targets}
    offered = knowledge & set(library.retrieve(FACTS).admitted)
    assert offered == knowledge & here - {"stop-at-floor"}
    assert "coalesce-access" in knowledge - offered
    reasons = {item.reason for item in library.retrieve(FACTS).decisions if item.skill in offered}
    assert all(reason.startswith("there is no gate") for reason in reasons)


def test_without_the_gate_alone_what_is_expected_still_ranks(tmp_path):
    admitted = opened(("gate",), tmp_path).retrieve(FACTS).admitted
    assert admitted.index("large") < admitted.index("small")


def test_without_long_term_memory_nothing_is_expected_or_learnt_and_the_order_is_drawn_once(tmp_path):
    store = EvidenceStore(tmp_path / "e.sqlite")
    library = opened(("long-term", "gate"), tmp_path, store)
    assert library.store is None
    first, second = library.retrieve(FACTS), opened(("long-term",), tmp_path).retrieve(FACTS)
    assert first == second
    assert all(item.expected_speedup is None for item in first.decisions)
    assert list(first.admitted) != list(opened(("gate",), tmp_path).retrieve(FACTS).admitted)
