"""The loop under every strategy, with and without its memory, over a landscape of edits whose gains are drawn."""

import math
import random
from itertools import pairwise

import pytest

from kernelskill.journal import Journal
from kernelskill.loop import Parts, optimize
from kernelskill.memory import ForgetfulMemory, ForgetfulPlanner, RunMemory
from kernelskill.records import Budget, Candidate, Edit, GateDecision, Plan, Retrieval
from kernelskill.report import SilentProgress
from kernelskill.search import STRATEGIES
from test_loop import TASK, Judge, Others, manifest

SKILLS = tuple(f"s{number}" for number in range(8))


class Landscape(Others):
    """Eight skills; which pay, and which only after others, is drawn. A program is the set of skills applied."""

    def __init__(self, seed):
        super().__init__([], [])
        self.start_ms = 1.5
        draws = random.Random(seed)
        self.gain = {skill: draws.uniform(0.9, 1.2) for skill in SKILLS}
        self.with_other = {pair: draws.choice((1.0, 1.0, 1.25, 0.8)) for pair in pairwise(SKILLS)}

    def ms(self, skills):
        gains = [self.gain[skill] for skill in skills]
        pairs = [gain for pair, gain in self.with_other.items() if set(pair) <= set(skills)]
        return self.start_ms / math.prod((*gains, *pairs))

    def seeds(self, task, workload, facts, count, failed=()):
        return [self.planned(skill, "") for skill in SKILLS[:3]]

    def planned(self, skill, base):
        edit = Edit(skill=skill, site="k", action="a")
        return Plan(base_id=base, edits=(edit,), skill=skill, reason="")

    def retrieve(self, facts):
        decisions = (
            GateDecision(skill=skill, subject="", admitted=True, reason="", expected_speedup=1.1)
            for skill in SKILLS
        )
        return Retrieval(headroom="high", bottlenecks=("compute",), decisions=tuple(decisions))

    def plan(self, base, facts, retrieval, memory):
        for decision in retrieval.decisions:
            plan = self.planned(decision.skill, base.id)
            if not memory.tried(base.id, plan.edits[0]):
                return plan
        return None

    def write(self, candidate_id, base, plan):
        skills = tuple(sorted({*(base.skills if base else ()), plan.skill}))
        return Candidate(
            id=candidate_id,
            parent_id=plan.base_id,
            source=str(self.ms(skills)),
            skills=skills,
            program_hash="+".join(skills),
        )


def searched(tmp_path, name, landscape, *, forgetful=False, folder="run", **budget):
    memory = ForgetfulMemory() if forgetful else RunMemory()
    parts = Parts(
        floor=landscape, profiler=landscape, features=landscape, library=landscape, memory=memory,
        generator=landscape, planner=ForgetfulPlanner(landscape) if forgetful else landscape,
        optimizer=landscape, diagnoser=landscape, repairer=landscape, strategy=STRATEGIES[name](),
    )  # fmt: skip
    place = tmp_path / folder
    journal = Journal(place) if place.exists() else Journal.create(place, manifest(folder))
    budget = {"rounds": 20, "patience": 20, **budget}
    try:
        result = optimize(TASK, Judge(), lambda workload: parts, Budget(**budget), journal, SilentProgress())
    finally:
        journal.close()
    return result, memory.attempts()


def repeats(attempts):
    """Pairs of base and edit that were judged more than once."""
    judged = [
        (item.plan.base_id, edit.key) for item in attempts if item.evaluation for edit in item.plan.edits
    ]
    return len(judged) - len(set(judged))


@pytest.mark.parametrize(("name", "runs"), [("greedy", 20), ("beam", 6), ("evolutionary", 6), ("bandit", 6)])
def test_no_edit_is_judged_twice_on_a_base(tmp_path, name, runs):
    for seed in range(runs):
        _, attempts = searched(tmp_path, name, Landscape(seed), folder=f"run{seed}")
        assert repeats(attempts) == 0
        programs = [item.candidate.program_hash for item in attempts if item.evaluation]
        assert len(programs) == len(set(programs))


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_its_memory_a_run_repeats_itself(tmp_path, name):
    total = 0
    for seed in range(4):
        _, attempts = searched(tmp_path, name, Landscape(seed), forgetful=True, folder=f"run{seed}")
        total += repeats(attempts)
    assert total > 4


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_winner_is_the_fastest_program_that_was_judged(tmp_path, name):
    for seed in range(4):
        landscape = Landscape(seed)
        result, attempts = searched(tmp_path, name, landscape, folder=f"run{seed}")
        times = {item.candidate.id: float(item.candidate.source) for item in attempts if item.evaluation}
        fastest = min(times.values())
        if fastest < 0.95:
            assert times[result.winner_id] <= fastest / 0.95


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_resumed_search_goes_the_way_that_the_whole_one_goes(tmp_path, name):
    _, whole = searched(tmp_path, name, Landscape(3), folder="whole")
    searched(tmp_path, name, Landscape(3), folder="parts", rounds=4)
    log = tmp_path / "parts" / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"result"' not in line and '"promote/' not in line]
    log.write_text("".join(kept))
    _, resumed = searched(tmp_path, name, Landscape(3), folder="parts")
    assert [item.plan for item in resumed] == [item.plan for item in whole]


def test_a_wider_search_finds_what_greed_walks_past(tmp_path):
    """Where a step that does not pay alone pays with the next one, one base at a time can't get there."""
    landscape = Landscape(0)
    landscape.start_ms = 1.0
    landscape.gain = dict.fromkeys(SKILLS, 0.98) | {"s0": 1.3, "s1": 1.28}
    landscape.with_other = {("s0", "s1"): 0.7, ("s1", "s2"): 1.5, ("s0", "s7"): 1.0}
    greedy, _ = searched(tmp_path, "greedy", landscape, folder="greedy")
    beam, _ = searched(tmp_path, "beam", landscape, folder="beam")
    times = {
        name: next(item.median_ms for item in found.promotion.timings if item.arm == "candidate")
        for name, found in (("greedy", greedy), ("beam", beam))
    }
    assert times["beam"] < 0.9 * times["greedy"]
