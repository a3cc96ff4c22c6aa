"""Files written by a model: seeds side by side, plans carried out, hints traced, failures diagnosed and mended."""

import json

import pytest
from scripted_model import TASK, WORKLOAD, ScriptedModel, cut, fenced, scene

from kernelskill.agents import ExpertDiagnoser
from kernelskill.agents.llm import ModelDiagnoser, ModelGenerator, ModelOptimizer, ModelRepairer
from kernelskill.agents.llm.edit import edit_of
from kernelskill.errors import BudgetError, ModelError, ProgramError
from kernelskill.records import (
    Attempt,
    Candidate,
    Diagnosis,
    Evaluation,
    Facts,
    FamilyError,
    Outcome,
    Plan,
    Status,
)
from kernelskill.records.model import Intent

FILE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
OTHER = FILE.replace("x + 1", "x + 2")


def seeds(here, count):
    return ModelGenerator(here, here.shelf).seeds(TASK, WORKLOAD, Facts(), count)


def plan(**changed):
    intent = Intent(author="test:scripted", steps=("do it",), **changed)
    return Plan(base_id="c000", edits=(edit_of("tune-threads", "rows", ("do it",)),), skill="tune-threads", reason="r", intent=intent)  # fmt: skip


def failed(status=Status.WRONG_VALUES, source=FILE, repair=0, index=1, **said):
    evaluation = Evaluation(candidate_id="c001", source_hash="", stage="screen", status=status, **said)
    candidate = Candidate(id="c001", parent_id="c000", source=source, program_hash="")
    return Attempt(
        index=index, round=1, repair=repair, plan=plan(), candidate=candidate, evaluation=evaluation, outcome=Outcome.FAILED
    )  # fmt: skip


BASE = Candidate(id="c000", source=FILE, skills=("free-design",))


def test_seeds_bring_their_file_along_and_those_without_one_are_left_out():
    here = scene("no file", "no file", "no file", fenced(FILE), tries=3)
    # One thread after the other would be a promise that is not made: the script serves whoever asks.
    plans = [item for item in seeds(scene(fenced(FILE)), 1)]
    assert plans[0].intent.source == FILE
    assert plans[0].intent.steps == ("Here it is.",)
    with pytest.raises(ModelError, match="no usable answer"):
        seeds(scene(*["no file"] * 6), 2)
    assert len(here.model.turns) == 4


def test_a_spent_budget_is_what_the_generator_tells():
    with pytest.raises(BudgetError):
        seeds(scene(BudgetError("spent"), BudgetError("spent")), 2)


def test_a_seed_that_came_is_kept_when_the_budget_ends():
    assert len(seeds(scene(fenced(FILE), BudgetError("spent")), 2)) == 1


def test_a_file_of_the_plan_is_taken_without_asking():
    here = scene()
    made = ModelOptimizer(here).write("c001", BASE, plan(source=OTHER))
    assert (made.source, made.program, made.author) == (OTHER, None, "test:scripted")
    assert made.program_hash.startswith("source:")
    assert made.skills == ("free-design", "tune-threads")


def test_a_plan_is_carried_out_on_the_base():
    here = scene(fenced(OTHER))
    made = ModelOptimizer(here).write("c001", BASE, plan())
    assert made.source == OTHER
    question = here.model.calls[0][2][1].text
    assert "1. do it" in question
    assert FILE.strip() in question


@pytest.mark.parametrize(("shown", "text"), [(True, "lib = ctypes.CDLL('k.so')\n"), (False, "")])
def test_how_kernels_are_built_is_told_where_the_base_does_not_show_it(shown, text):
    here = scene(fenced(OTHER))
    ModelOptimizer(here).write("c001", BASE.model_copy(update={"source": text + FILE}), plan())
    instructions = here.model.calls[0][2][0].text
    assert ("def build(source)" in instructions) is not shown
    assert "What pays on a CPU" in instructions


def test_no_usable_file_is_the_plans_failure_not_the_runs():
    with pytest.raises(ProgramError, match="no usable answer"):
        ModelOptimizer(scene(cut(), cut(), cut())).write("c001", BASE, plan())
    with pytest.raises(BudgetError):
        ModelOptimizer(scene(BudgetError("spent"))).write("c001", BASE, plan())


def test_two_files_that_differ_in_comments_are_the_same_candidate():
    one = ModelOptimizer(scene()).write("c001", BASE, plan(source=FILE))
    two = ModelOptimizer(scene()).write("c002", BASE, plan(source="# better\n" + FILE))
    assert one.program_hash == two.program_hash


def hinted(*traces):
    return fenced(FILE) + "```json\n" + json.dumps({"hints": list(traces)}) + "\n```\n"


def test_hints_are_traced_to_a_line_of_the_file():
    here = scene(
        hinted({"hint": 1, "followed": True, "line": "return x  +  1"}, {"hint": 2, "followed": False, "why_not": "no gain"}),
        hints="- add one\n- use bf16",
    )  # fmt: skip
    made = ModelOptimizer(here).write("c001", BASE, plan())
    assert "add one: followed: return x + 1" in made.note
    assert "use bf16: not followed: no gain" in made.note


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ({"hint": 1, "followed": True, "line": "return x * 3"}, "no such line of code"),
        ({"hint": 1, "followed": True, "line": ""}, "no such line of code"),
        ({"hint": 1, "followed": False}, "say why"),
        ({"hint": 2, "followed": True, "line": "return x + 1"}, "Nothing is said about hint 1"),
    ],
)
def test_a_hint_that_was_not_implemented_is_found_out(trace, said):
    good = hinted({"hint": 1, "followed": True, "line": "return x + 1"})
    here = scene(hinted(trace), good, hints="- add one")
    ModelOptimizer(here).write("c001", BASE, plan())
    assert said in here.model.calls[1][2][-1].text


def diagnosed(here, attempt):
    return ModelDiagnoser(here, ExpertDiagnoser()).diagnose(attempt)


ANSWER = json.dumps(
    {"cause": "wrong constant", "evidence": "line 6: 1 for 2", "remedy": "x + 2", "repairable": True}
)


def test_a_diagnosis_keeps_the_tables_word_and_adds_the_models_reading():
    wrong = FamilyError(family="task", output="output[0]", rms=0.3, rms_eager=1e-7, limit=3e-7, worst_abs=1.0, passed=False)  # fmt: skip
    here = scene(ANSWER)
    found = diagnosed(here, failed(errors=(wrong,)))
    assert found == Diagnosis(cause="values", evidence="wrong constant: line 6: 1 for 2", remedy="x + 2", repairable=True)  # fmt: skip
    assert "task inputs, output[0]: relative error 0.3" in here.model.calls[0][2][1].text


@pytest.mark.parametrize("status", [Status.INTEGRITY, Status.NOT_ALLOWED, Status.UNTESTABLE])
def test_what_is_never_mended_costs_no_call(status):
    assert not diagnosed(scene(), failed(status)).repairable


def test_the_last_failure_of_a_chain_costs_no_call():
    assert diagnosed(scene(repairs=2), failed(repair=2)).cause == "values"


def test_a_plan_without_a_file_cannot_be_mended():
    assert not diagnosed(scene(), failed(Status.BUILD_ERROR, source="")).repairable


def test_without_a_usable_diagnosis_the_tables_stands():
    assert (
        diagnosed(scene("?", "?", "?"), failed()).remedy == "leave out the edit that computes something else"
    )


def test_a_repair_is_another_file_for_the_same_goal():
    here = scene(fenced(FILE), fenced(OTHER))
    attempt = failed()
    written = ModelOptimizer(scene()).write("c001", BASE, plan(source=FILE))
    attempt = attempt.model_copy(update={"candidate": written})
    mended = ModelRepairer(here).repair(attempt, diagnosed(scene(ANSWER), failed()))
    assert mended.intent.source == OTHER
    assert "failed, unchanged" in here.model.calls[1][2][-1].text
    assert mended.edits[0].key != attempt.plan.edits[0].key
    assert (mended.base_id, mended.skill) == ("c000", "tune-threads")


def test_a_model_that_mends_nothing_ends_the_chain():
    attempt = failed()
    assert ModelRepairer(scene("?", "?", "?")).repair(attempt, Diagnosis(cause="values", evidence="", remedy="", repairable=True)) is None  # fmt: skip


def test_a_model_behind_the_seam_is_all_that_is_needed():
    assert isinstance(scene().model, ScriptedModel)
