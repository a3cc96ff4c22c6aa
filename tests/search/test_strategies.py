"""What each strategy works on next, and that none of them forgets, repeats or depends on anything but the attempts."""

import pytest
from test_greedy import compared

from kernelskill.records import (
    Attempt,
    Candidate,
    Evaluation,
    GateDecision,
    Outcome,
    Plan,
    Retrieval,
    Status,
)
from kernelskill.search import (
    STRATEGIES,
    BanditStrategy,
    BeamStrategy,
    EvolutionStrategy,
    GreedyStrategy,
)


def attempt(name, parent="", stock=None, over_base=None, skills=(), outcome=None, bottleneck="", skill=""):
    """A verified attempt, or a failed one where no speedup is given."""
    candidate = Candidate(id=name, parent_id=parent, source="", skills=skills)
    arms = [compared("compile", stock * 0.99, stock)] if stock else []
    arms += [compared("base", over_base * 0.99, over_base)] if over_base else []
    evaluation = Evaluation(
        candidate_id=name,
        source_hash=candidate.source_hash,
        stage="screen",
        status=Status.PASSED if arms else Status.WRONG_VALUES,
        comparisons=tuple(arms),
    )
    plan = Plan(base_id=parent, edits=(), skill=skill or "x", reason="", bottleneck=bottleneck)
    passed = Outcome.NOT_FASTER if parent else Outcome.SEED
    return Attempt(
        index=0,
        round=1 if parent else 0,
        plan=plan,
        candidate=candidate,
        evaluation=evaluation,
        outcome=outcome or (passed if arms else Outcome.FAILED),
    )


def decision(skill, expected, admitted=True):
    return GateDecision(skill=skill, subject="", admitted=admitted, reason="", expected_speedup=expected)


def retrieval(*decisions, bottleneck="memory-bandwidth"):
    return Retrieval(headroom="high", bottlenecks=(bottleneck,), decisions=decisions)


SEEDS = [attempt("c0", stock=1.2), attempt("c1", stock=1.5), attempt("c2", stock=1.4), attempt("c3")]
OFFERED = retrieval(decision("wide", 1.3), decision("tile", 1.1), decision("fuse", 1.2, admitted=False))


def ids(attempts):
    return [item.candidate.id for item in attempts]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_starts_from_a_verified_seed_and_ends_when_all_are_spent(name):
    strategy = STRATEGIES[name]()
    spent, worked = set(), []
    while (base := strategy.base(SEEDS, spent)) is not None:
        assert base.candidate.id not in spent
        spent.add(base.candidate.id)
        worked.append(base.candidate.id)
    assert set(worked) <= {"c0", "c1", "c2"}
    assert worked
    assert strategy.base([attempt("c0")], set()) is None
    assert strategy.best_of(SEEDS).candidate.id == "c1"
    assert "c1" in ids(strategy.finalists(SEEDS))


@pytest.mark.parametrize("name", STRATEGIES)
def test_answers_depend_on_the_attempts_alone(name):
    one, other = STRATEGIES[name](), STRATEGIES[name]()
    one.base(SEEDS[:2], set())
    one.order(SEEDS[1], OFFERED, SEEDS[:2])
    assert one.base(SEEDS, set()) == other.base(SEEDS, set())
    assert one.order(SEEDS[1], OFFERED, SEEDS) == other.order(SEEDS[1], OFFERED, SEEDS)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_order_keeps_every_decision_and_puts_no_refusal_before_an_admission(name):
    ordered = STRATEGIES[name]().order(SEEDS[1], OFFERED, SEEDS)
    assert sorted(item.skill for item in ordered.decisions) == ["fuse", "tile", "wide"]
    assert not ordered.decisions[-1].admitted
    assert ordered.bottlenecks == OFFERED.bottlenecks


def test_greedy_stays_on_the_newest_base():
    better = attempt("c4", "c1", stock=1.6, over_base=1.1, outcome=Outcome.NEW_BASE)
    later = attempt("c5", "c4", stock=2.5, over_base=1.0)
    strategy = GreedyStrategy()
    assert strategy.base([*SEEDS, better, later], set()).candidate.id == "c4"
    assert strategy.base([*SEEDS, better], {"c4"}) is None
    assert ids(strategy.finalists([*SEEDS, better])) == ["c4"]
    hidden = attempt("c5", "c4", stock=2.4, over_base=1.5)
    assert ids(strategy.finalists([*SEEDS, better, hidden])) == ["c5", "c4"]
    slow = attempt("c6", stock=0.8)
    assert strategy.finalists([slow]) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_experts_own_best_is_a_finalist_beside_a_models(name):
    def by_model(item):
        return item.model_copy(update={"candidate": item.candidate.model_copy(update={"author": "llm"})})

    models = [
        by_model(attempt("c4", "c1", stock=1.9, over_base=1.3, outcome=Outcome.NEW_BASE)),
        by_model(attempt("c5", "c4", stock=2.2, over_base=1.2, outcome=Outcome.NEW_BASE)),
    ]
    found = ids(STRATEGIES[name]().finalists([*SEEDS, *models]))
    assert found[0] == "c5"
    assert found[-1] == "c1", "the fastest that the expert wrote, after the model's"
    assert len(found) == len(set(found))


def test_a_beam_works_on_its_members_in_turn_and_leaves_the_slow_ones():
    strategy = BeamStrategy(width=2)
    assert strategy.base(SEEDS, set()).candidate.id == "c1"
    once = [*SEEDS, attempt("c4", "c1", stock=1.1, over_base=0.8)]
    assert strategy.base(once, set()).candidate.id == "c2"
    twice = [*once, attempt("c5", "c2", stock=1.8, over_base=1.29, outcome=Outcome.NEW_BASE)]
    assert ids(strategy.beam(twice)) == ["c5", "c1"]
    assert strategy.base(twice, set()).candidate.id == "c5"
    assert strategy.base(twice, {"c5", "c1"}) is None


def test_an_archive_keeps_the_fastest_of_every_kind():
    population = [
        attempt("c0", stock=1.2, skills=("fuse",)),
        attempt("c1", stock=1.5, skills=("fuse", "tile")),
        attempt("c2", stock=1.3, skills=("tile", "fuse")),
        attempt("c3", stock=1.1, skills=("scan",)),
    ]
    strategy = EvolutionStrategy()
    assert {key: item.candidate.id for key, item in strategy.archive(population).items()} == {
        ("fuse",): "c0",
        ("fuse", "tile"): "c1",
        ("scan",): "c3",
    }
    parents = {EvolutionStrategy(seed).base(population, set()).candidate.id for seed in range(60)}
    assert parents == {"c0", "c1", "c3"}


def test_evolution_draws_what_is_expected_to_pay_more_often():
    offers = retrieval(decision("wide", 1.6), decision("tile", 1.05))
    firsts = [
        EvolutionStrategy(seed).order(SEEDS[1], offers, SEEDS).decisions[0].skill for seed in range(200)
    ]
    assert firsts.count("wide") > 2 * firsts.count("tile") > 0


def test_a_bandit_prefers_what_paid_under_the_same_bottleneck_and_tries_the_unknown():
    memory = {"bottleneck": "memory-bandwidth"}
    tried = [
        *SEEDS,
        *(attempt(f"a{i}", "c1", stock=1.5, over_base=0.97, skill="wide", **memory) for i in range(3)),
        *(attempt(f"b{i}", "c1", stock=1.5, over_base=1.3, skill="tile", **memory) for i in range(3)),
    ]
    strategy = BanditStrategy()
    assert strategy.order(SEEDS[1], OFFERED, tried).decisions[0].skill == "tile"
    elsewhere = retrieval(decision("wide", 1.3), decision("tile", 1.1), bottleneck="compute")
    assert strategy.order(SEEDS[1], elsewhere, tried).decisions[0].skill == "wide"
    unknown = retrieval(decision("tile", 1.0), decision("new", 1.29))
    assert strategy.order(SEEDS[1], unknown, tried).decisions[0].skill == "new"


def test_a_failed_attempt_costs_a_skill_its_place():
    offers = retrieval(decision("wide", 1.02), decision("tile", 1.01))
    failed = [
        *SEEDS,
        *(attempt(f"f{i}", "c1", skill="wide", bottleneck="memory-bandwidth") for i in range(4)),
    ]
    assert BanditStrategy().order(SEEDS[1], offers, SEEDS).decisions[0].skill == "wide"
    assert BanditStrategy().order(SEEDS[1], offers, failed).decisions[0].skill == "tile"


def test_a_measured_gain_over_the_base_counts_more_than_two_screens_apart():
    better = attempt("c4", "c1", stock=1.0, over_base=1.2, outcome=Outcome.NEW_BASE)
    for strategy in STRATEGIES.values():
        assert strategy().best_of([*SEEDS, better]).candidate.id == "c4"
