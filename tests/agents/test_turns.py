"""Expert and model in turn: who plans is who writes; the second goes on from the best with rounds of its own."""

from toy_library import TASK, attempt, candidate, fused, plan, schedule, workload

from kernelskill.agents.turns import DiagnoserByAuthor, GeneratorsInTurn, OptimizerByAuthor, RepairerByAuthor
from kernelskill.records import Diagnosis, Facts
from kernelskill.records.model import Intent

EDITS = plan("c000", schedule("n0", "unroll", 2))
WORDS = EDITS.model_copy(update={"intent": Intent(author="m")})


class Role:
    def __init__(self, name, plans=()):
        self.name, self.plans, self.asked = name, plans, 0

    def seeds(self, task, workload, facts, count, failed=()):
        self.asked += 1
        return () if any(attempt.plan in self.plans for attempt in failed) else self.plans

    def write(self, candidate_id, base, plan):
        return candidate(self.name, fused("n0"))

    def diagnose(self, attempt):
        return Diagnosis(cause=self.name, evidence="", remedy="", repairable=True)

    def repair(self, attempt, diagnosis):
        return plan("c000", schedule(self.name, "unroll", 1))


def tried(what):
    return attempt(1, what, candidate("c001", fused("n0")))


def test_the_plans_author_writes_diagnoses_and_repairs():
    expert, model = Role("expert"), Role("model")
    assert OptimizerByAuthor(expert, model).write("c001", None, EDITS).id == "expert"
    assert OptimizerByAuthor(expert, model).write("c001", None, WORDS).id == "model"
    found = DiagnoserByAuthor(expert, model)
    assert (found.diagnose(tried(EDITS)).cause, found.diagnose(tried(WORDS)).cause) == ("expert", "model")
    mender = RepairerByAuthor(expert, model)
    sites = [mender.repair(tried(what), found.diagnose(tried(what))).edits[0].site for what in (EDITS, WORDS)]
    assert sites == ["expert", "model"]


def test_first_versions_come_from_the_first_that_has_any():
    first, second, third = Role("a"), Role("b", (EDITS,)), Role("c", (WORDS,))
    plans = GeneratorsInTurn(first, second, third).seeds(TASK, workload(None), Facts(), 3)
    assert plans == (EDITS,)
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)
    assert GeneratorsInTurn(first).seeds(TASK, workload(None), Facts(), 3) == ()


def test_where_all_of_those_fail_the_next_is_asked():
    generators = GeneratorsInTurn(Role("a"), Role("b", (EDITS,)), Role("c", (WORDS,)))
    failed = [tried(EDITS)]
    assert generators.seeds(TASK, workload(None), Facts(), 3, failed) == (WORDS,)
    assert generators.seeds(TASK, workload(None), Facts(), 3, [*failed, tried(WORDS)]) == ()
