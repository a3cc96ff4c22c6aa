"""The loop with real journal, memory and strategy, over scripted neighbours."""

from __future__ import annotations

import time

import pytest

from kernelskill.errors import ModelError, ProgramError
from kernelskill.journal import Journal, load_run
from kernelskill.loop import Parts, optimize
from kernelskill.memory import RunMemory
from kernelskill.records import (
    Baselines,
    Budget,
    Candidate,
    Ceilings,
    Comparison,
    Declined,
    Diagnosis,
    Edit,
    Evaluation,
    Fact,
    Facts,
    Finding,
    Floor,
    GateDecision,
    Interval,
    Plan,
    Profile,
    Reference,
    Retrieval,
    Run,
    Status,
    StopReason,
    Task,
    TensorSpec,
    Timing,
    Workload,
)  # fmt: skip
from kernelskill.records.model import Expectation, Intent
from kernelskill.report import SilentProgress
from kernelskill.report.cost import predictions
from kernelskill.search import GreedyStrategy

TASK = Task(
    name="t", hash="0" * 64, origin="t.py", reference=Reference(loader="source", kind="module", entry="Model")
)
SPEC = TensorSpec.contiguous((4,))


def timing(arm, ms):
    return Timing(arm=arm, median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),))


class Judge:
    """Times are what the candidate's source says; every call is counted."""

    def __init__(self, findings=(), stock_ms=1.0):
        self.findings, self.stock_ms = findings, stock_ms
        self.calls = []

    def describe(self):
        self.calls.append("describe")
        return Workload(
            inputs=(SPEC,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(SPEC,), outputs_tree={"tensor": 0},
            state=(), eager_ms=1.0, findings=self.findings,
        )  # fmt: skip

    def adopt(self, workload, baselines, floor_ms=None):
        pass

    def baselines(self):
        self.calls.append("baselines")
        return Baselines(
            timings=(timing("eager", self.stock_ms),), best_arm="eager", noise_band_ratio=0.02, null_ms=0.0
        )

    def screen(self, candidate, base):
        self.calls.append(f"screen {candidate.id}")
        return self._judged(candidate, "screen", base)

    def promote(self, candidate):
        self.calls.append(f"promote {candidate.id}")
        return self._judged(candidate, "promotion", None)

    def _judged(self, candidate, stage, base):
        if candidate.source.startswith("broken"):
            return Evaluation(
                candidate_id=candidate.id, source_hash="", stage=stage, status=Status.BUILD_ERROR, detail="no"
            )
        ms = float(candidate.source)
        arms = {"eager": self.stock_ms} | ({"base": float(base.source)} if base else {})
        return Evaluation(
            candidate_id=candidate.id, source_hash="", stage=stage, status=Status.PASSED,
            timings=(timing("candidate", ms),),
            comparisons=tuple(
                Comparison(
                    arm=arm, speedup=Interval(low=value / ms * 0.99, value=value / ms, high=value / ms * 1.01),
                    rounds=9, sets=1, significant=value / ms > 1.03,
                )
                for arm, value in arms.items()
            ),
        )  # fmt: skip


class Others:
    """Every other role; an edit's parameter `ms` is what the candidate will take."""

    def __init__(self, seeds, steps, repairs=()):
        self._seeds, self._steps, self._repairs = list(seeds), list(steps), list(repairs)

    def ceilings(self):
        return Ceilings(
            device="d", threads=1, bandwidth_gb_per_s={}, fp32_gflops=1, exp_gops=1, parallel_us=1, call_us=1,
            operator_us=1, measured_on="2026-01-01",
        )  # fmt: skip

    def floor(self, workload):
        return Floor(
            bytes_min=1, flops=1, transcendentals=0, launches=1, memory_ms=0.1, compute_ms=0, overhead_ms=0,
            floor_ms=0.1, bound="memory",
        )  # fmt: skip

    def profile(self, candidate):
        return Profile(kind="static", total_us=None, steps=())

    def read(self, candidate, profile, floor, *, evaluation=None, baselines=None):
        return Facts(facts=(Fact(name="base_ms", value=float(candidate.source), origin="measured"),))

    def read_graph(self, workload, floor, *, baselines=None):
        return Facts()

    def retrieve(self, facts):
        decision = GateDecision(skill="s", subject="", admitted=True, reason="always", measured=True)
        return Retrieval(headroom="high", bottlenecks=(), decisions=(decision,))

    def propose(self, skill, program, facts):
        return []

    def apply(self, program, edit):
        return program

    def remember(self, attempt, facts, context):
        pass

    def plan_of(self, value, base=""):
        edit = Edit(skill="s", site="k", action="a", parameters={"ms": value})
        return Plan(base_id=base, edits=(edit,), skill="s", reason="next", evidence_facts={"base_ms": 1.0})

    def seeds(self, task, workload, facts, count, failed=()):
        return [self.plan_of(value) for value in self._seeds]

    def plan(self, base, facts, retrieval, memory):
        for value in self._steps:
            plan = self.plan_of(value, base.id)
            if not memory.tried(base.id, plan.edits[0]):
                return plan
        return None

    def declined(self):
        return Declined(reason=f"all of {self._steps} was tried")

    def write(self, candidate_id, base, plan):
        value = plan.edits[-1].parameters["ms"]
        if value == "impossible":
            raise ProgramError("does not fit")
        return Candidate(
            id=candidate_id, parent_id=plan.base_id, source=str(value), program_hash=f"{plan.base_id}/{value}",
            skills=("s",),
        )  # fmt: skip

    def diagnose(self, attempt):
        return Diagnosis(cause="build", evidence="", remedy="", repairable=True)

    def repair(self, attempt, diagnosis):
        return self.plan_of(self._repairs.pop(0), attempt.plan.base_id) if self._repairs else None


def manifest(name):
    return Run(
        id=name,
        created="2026-01-01",
        task=TASK,
        target="cpu",
        budget=Budget(),
        config={},
        machine={"threads": 1},
    )


def run(tmp_path, judge, others, name="run", **budget):
    folder = tmp_path / name
    journal = Journal(folder) if folder.exists() else Journal.create(folder, manifest(name))
    memory = RunMemory()
    parts = Parts(
        floor=others, profiler=others, features=others, library=others, memory=memory, generator=others,
        planner=others, optimizer=others, diagnoser=others, repairer=others, strategy=GreedyStrategy(),
    )  # fmt: skip
    try:
        result = optimize(TASK, judge, lambda workload: parts, Budget(**budget), journal, SilentProgress())
    finally:
        journal.close()
    return result, memory


def test_small_gains_compound_and_the_winner_is_retimed(tmp_path):
    judge = Judge()
    result, memory = run(tmp_path, judge, Others([0.9], [0.8, 0.7, 0.6]))
    assert result.stop is StopReason.NO_SKILL_LEFT
    assert result.stop_detail == f"{result.winner_id}: all of [0.8, 0.7, 0.6] was tried", (
        "in the planner's words"
    )
    assert memory.attempts()[-1].candidate.parent_id
    winner = next(item for item in memory.attempts() if item.candidate.id == result.winner_id)
    assert winner.candidate.source == "0.6"
    assert judge.calls[-1] == f"promote {result.winner_id}"


def test_nothing_faster_means_that_best_stock_is_the_answer(tmp_path):
    result, _ = run(tmp_path, Judge(), Others([1.1], [1.2]))
    assert (result.winner_id, result.winner_arm) == ("", "eager")


def test_at_the_floor_nothing_is_written(tmp_path):
    judge = Judge(stock_ms=0.102)
    result, memory = run(tmp_path, judge, Others([0.05], []))
    assert result.stop is StopReason.NOTHING_TO_GAIN
    assert memory.attempts() == ()
    assert judge.calls == ["describe", "baselines"]


def test_without_a_first_version_to_write_there_is_nothing_to_gain(tmp_path):
    judge = Judge()
    result, memory = run(tmp_path, judge, Others([], []))
    assert result.stop is StopReason.NOTHING_TO_GAIN
    assert "no admitted skill changes this program" in result.stop_detail
    assert memory.attempts() == ()
    assert judge.calls == ["describe", "baselines"]


def test_a_task_that_proves_nothing_is_not_timed(tmp_path):
    judge = Judge(findings=(Finding(code="stochastic", message="two runs differ", fatal=True),))
    result, _ = run(tmp_path, judge, Others([0.5], []))
    assert (result.stop, result.stop_detail) == (StopReason.UNTESTABLE, "two runs differ")
    assert judge.calls == ["describe"]


def test_failures_are_repaired_within_the_budget_and_then_left(tmp_path):
    result, memory = run(
        tmp_path, Judge(), Others([0.9], ["broken", 0.5], ["broken again", 0.8, "broken"]), repairs=2
    )
    kinds = [(item.round, item.repair, item.candidate.source) for item in memory.attempts()]
    assert kinds[:4] == [(0, 0, "0.9"), (1, 0, "broken"), (1, 1, "broken again"), (1, 2, "0.8")]
    assert result.winner_id


def test_a_plan_that_does_not_fit_is_a_failed_attempt_not_an_end(tmp_path):
    result, memory = run(tmp_path, Judge(), Others([0.9], ["impossible", 0.5]))
    assert memory.attempts()[1].evaluation.status is Status.BUILD_ERROR
    assert result.winner_id == memory.attempts()[2].candidate.id


def test_patience_and_rounds_end_a_run(tmp_path):
    worse = [0.9 + step / 100 for step in range(9)]
    result, _ = run(tmp_path, Judge(), Others([0.9], worse), name="a", patience=3)
    assert result.stop is StopReason.PATIENCE
    result, _ = run(tmp_path, Judge(), Others([0.9], worse), name="b", rounds=2)
    assert result.stop is StopReason.ROUNDS


@pytest.mark.parametrize("dies_at", range(1, 9))
def test_a_run_that_dies_anywhere_goes_on_without_repeating(tmp_path, dies_at):
    class Mortal(Judge):
        def _count(self):
            if len(self.calls) == dies_at:
                raise KeyboardInterrupt

        def describe(self):
            self._count()
            return super().describe()

        def baselines(self):
            self._count()
            return super().baselines()

        def screen(self, candidate, base):
            self._count()
            return super().screen(candidate, base)

        def promote(self, candidate):
            self._count()
            return super().promote(candidate)

    whole = Judge()
    expected, _ = run(tmp_path, whole, Others([0.9, 0.95], [0.8, 0.85, 0.7]), name="whole")
    first = Mortal()
    others = [0.9, 0.95], [0.8, 0.85, 0.7]
    try:
        run(tmp_path, first, Others(*others), name="killed")
    except KeyboardInterrupt:
        pass
    else:
        assert dies_at >= len(whole.calls)
    second = Judge()
    result, memory = run(tmp_path, second, Others(*others), name="killed")
    assert first.calls + second.calls == whole.calls
    assert result == expected
    assert [item.index for item in memory.attempts()] == list(range(len(memory.attempts())))


class SecondPlanner(Others):
    """Plans in words of a model; steps as for the first."""

    def plan(self, base, facts, retrieval, memory):
        for value in self._steps:
            plan = self.plan_of(value, base.id)
            if not memory.tried(base.id, plan.edits[0]):
                return plan
        raise ModelError("the budget is spent")


def in_turn(tmp_path, first, second, name="run", judge=None, **budget):
    folder = tmp_path / name
    journal = Journal(folder) if folder.exists() else Journal.create(folder, manifest(name))
    memory = RunMemory()
    parts = Parts(
        floor=first, profiler=first, features=first, library=first, memory=memory, generator=first, planner=first,
        optimizer=first, diagnoser=first, repairer=first, strategy=GreedyStrategy(), successors=(second,),
    )  # fmt: skip
    try:
        result = optimize(
            TASK, judge or Judge(), lambda workload: parts, Budget(**budget), journal, SilentProgress()
        )
    finally:
        journal.close()
    return result, memory


@pytest.mark.parametrize("budget", [{}, {"rounds": 2}, {"patience": 1}])
def test_a_second_planner_goes_on_from_the_best_of_the_first(tmp_path, budget):
    """Whatever ended the first one's turn; it has rounds and patience of its own."""
    first, second = Others([0.9], [0.8, 0.85]), SecondPlanner([], [0.7, 0.6])
    result, memory = in_turn(tmp_path, first, second, **budget)
    assert result.stop in {StopReason.MODEL, StopReason.ROUNDS}
    tried = [item.candidate.source for item in memory.attempts()]
    assert tried == ["0.9", "0.8", "0.85", "0.7", "0.6"]
    assert memory.attempts()[3].candidate.parent_id == "c001"
    again, _ = in_turn(tmp_path, first, second, **budget)
    assert again == result


def test_a_second_planner_that_makes_nothing_better_never_makes_the_answer_worse(tmp_path):
    alone, _ = run(tmp_path, Judge(), Others([0.9], [0.8]), name="alone")
    both, _ = in_turn(tmp_path, Others([0.9], [0.8]), SecondPlanner([], ["broken", 0.95]), name="both")
    assert (alone.winner_id, alone.promotion.speedup("eager")) == (
        both.winner_id,
        both.promotion.speedup("eager"),
    )


class Signed(Others):
    """Writes for both planners; what takes less than 0.75 ms is the model's."""

    def write(self, candidate_id, base, plan):
        written = super().write(candidate_id, base, plan)
        return written.model_copy(update={"author": "model"}) if float(written.source) < 0.75 else written


class Flattered(Judge):
    """In fresh processes what takes 0.7 takes 0.95."""

    def promote(self, candidate):
        self.calls.append(f"promote {candidate.id}")
        slower = {"0.7": "0.95"}.get(candidate.source, candidate.source)
        return self._judged(candidate.model_copy(update={"source": slower}), "promotion", None)


def test_the_best_of_the_other_author_is_re_timed_where_it_may_be_the_faster_one(tmp_path):
    judge = Flattered()
    result, memory = in_turn(tmp_path, Signed([0.9], [0.8]), SecondPlanner([], [0.7]), judge=judge)
    assert [item.candidate.author for item in memory.attempts()] == ["expert", "expert", "model"]
    assert [call for call in judge.calls if call.startswith("promote")] == ["promote c002", "promote c001"]
    assert result.winner_id == "c001", "the model's version holds over best stock, but the expert's is faster"


def test_the_other_author_is_not_re_timed_where_the_first_is_faster_than_its_screen(tmp_path):
    judge = Judge()
    result, _ = in_turn(tmp_path, Signed([0.9], [0.8]), SecondPlanner([], [0.6]), judge=judge)
    assert [call for call in judge.calls if call.startswith("promote")] == ["promote c002"]
    assert result.winner_id == "c002"


def test_a_model_that_fails_ends_the_run_with_the_best_so_far(tmp_path):
    result, _ = run(tmp_path, Judge(), SecondPlanner([0.9], [0.8]))
    assert (result.stop, result.stop_detail) == (StopReason.MODEL, "the budget is spent")
    assert result.winner_id == "c001"


def test_a_finalist_that_does_not_hold_in_fresh_processes_is_kept_and_best_stock_is_the_answer(tmp_path):
    class Fickle(Judge):
        def promote(self, candidate):
            return self._judged(candidate.model_copy(update={"source": "1.0"}), "promotion", None)

    result, _ = run(tmp_path, Fickle(), Others([0.8], []))
    assert (result.winner_id, result.winner_arm) == ("", "eager")
    assert [item.candidate_id for item in result.unproven] == ["c000"]


class Predicting(Others):
    """Every plan predicts that the time goes down; profiles are counted."""

    def __init__(self, *given):
        super().__init__(*given)
        self.profiled = []

    def plan_of(self, value, base=""):
        expects = (Expectation(fact="base_ms", direction="down", before=0.9),) if base else ()
        return super().plan_of(value, base).model_copy(update={"intent": Intent(author="m", expects=expects)})

    def profile(self, candidate):
        self.profiled.append(candidate.id)
        return super().profile(candidate)


def predicted(tmp_path):
    return [
        (item.candidate_id, item.after, item.came_true) for item in predictions(load_run(tmp_path / "run"))
    ]


def test_what_was_predicted_of_a_winner_of_the_last_round_is_measured(tmp_path):
    others = Predicting([0.9], [0.8])
    result, _ = run(tmp_path, Judge(), others, rounds=1)
    assert (result.winner_id, result.stop) == ("c001", StopReason.ROUNDS)
    assert others.profiled == ["c000", "c001"]
    assert predicted(tmp_path) == [("c001", 0.8, True)]
    assert run(tmp_path, Judge(), others, rounds=1)[0] == result
    assert others.profiled == ["c000", "c001"], "resuming reads it back"


def test_a_winner_that_a_round_began_on_is_not_measured_again(tmp_path):
    others = Predicting([0.9], [0.8])
    result, _ = run(tmp_path, Judge(), others)
    assert result.stop is StopReason.NO_SKILL_LEFT
    assert sorted(others.profiled) == ["c000", "c001"]
    assert predicted(tmp_path) == [("c001", 0.8, True)]


def test_a_winner_without_predictions_is_not_profiled_once_more(tmp_path):
    run(tmp_path, Judge(), Others([0.9], [0.8]), rounds=1)
    assert [item.base_id for item in load_run(tmp_path / "run").rounds] == ["c000"]


def test_nothing_is_measured_after_the_time_is_up(tmp_path):
    """A counter pass on a GPU takes minutes, a reader's answer money."""

    class Slow(Judge):
        def promote(self, candidate):
            time.sleep(1.1)
            return super().promote(candidate)

    result, _ = run(tmp_path, Slow(), Predicting([0.9], [0.8]), rounds=1, seconds=1.0)
    assert (result.winner_id, result.stop) == ("c001", StopReason.ROUNDS)
    assert predicted(tmp_path) == [("c001", None, None)]


def test_a_reader_that_fails_on_the_winner_does_not_cost_the_result(tmp_path):
    class Silent(Predicting):
        def read(self, candidate, profile, floor, **known):
            if candidate.id == "c001":
                raise ModelError("the budget is spent")
            return super().read(candidate, profile, floor, **known)

    result, _ = run(tmp_path, Judge(), Silent([0.9], [0.8]), rounds=1)
    assert (result.winner_id, result.stop) == ("c001", StopReason.ROUNDS)
    assert predicted(tmp_path) == [("c001", None, None)]
