"""Without a memory the same thing is tried again, and judged again."""

from test_run_memory import A, attempt

from kernelskill.memory import ForgetfulMemory, ForgetfulPlanner, RunMemory
from kernelskill.records import Candidate, Declined, Facts, Outcome, Plan, Retrieval

TRIED = [attempt("c0", "", outcome=Outcome.SEED), attempt("c1", "c0", A)]
NOTHING = Retrieval(headroom="high", bottlenecks=(), decisions=())


class OncePlanner:
    """Plans A unless the memory says that it was tried."""

    def plan(self, base, facts, retrieval, memory):
        if memory.tried(base.id, A) or memory.attempts():
            return None
        return Plan(base_id=base.id, edits=(A,), skill="skill", reason="")

    def declined(self):
        return Declined(reason="once is enough")


def test_the_log_is_kept_and_nothing_is_drawn_from_it():
    memory, remembering = ForgetfulMemory(TRIED), RunMemory(TRIED)
    assert memory.attempts() == remembering.attempts()
    assert remembering.tried("c0", A)
    assert memory.tried("c0", A) == ""
    assert remembering.known("program of c1") == "c1"
    assert memory.known("program of c1") == ""


def test_a_forgetful_planner_plans_the_same_again():
    base, memory = Candidate(id="c0", source=""), RunMemory(TRIED)
    assert OncePlanner().plan(base, Facts(), NOTHING, memory) is None
    again = ForgetfulPlanner(OncePlanner()).plan(base, Facts(), NOTHING, memory)
    assert again.edits == (A,)
    assert ForgetfulPlanner(OncePlanner()).declined().reason == "once is enough"
