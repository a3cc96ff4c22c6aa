"""Another plan for the same goal: milder parameters, then without the suspect edit, never the same twice."""

from toy_library import TASK, ToyLibrary, attempt, candidate, fused, graph, plan, schedule, workload

from kernelskill.agents import ExpertOptimizer, ExpertRepairer
from kernelskill.agents.suspects import suspect_kernels
from kernelskill.memory import RunMemory
from kernelskill.program.program import Program
from kernelskill.records import Diagnosis, Edit, FamilyError, Status

OPERATORS = ("add", "sum", "softmax", "add", "sum", "softmax")
FUSING = {"fuse-elementwise": "add", "fuse-reduction": "sum", "online-softmax": "softmax"}
SKILL_OF = {operator: skill for skill, operator in FUSING.items()}


def fuse(place):
    return Edit(skill=SKILL_OF[OPERATORS[place]], site=f"n{place}", action="fuse")


def diagnosis(cause, repairable=True):
    return Diagnosis(cause=cause, evidence="", remedy="", repairable=repairable)


class Printer:
    def source(self, program, task, workload):
        return str(len(program["kernels"]))


def seed(work, *edits, index=0, status=Status.WRONG_VALUES, **told):
    """A failed first version with those edits."""
    optimizer = ExpertOptimizer(ToyLibrary(fusing=FUSING), Printer(), TASK, work)
    made = optimizer.write(f"c{index}", None, plan("", *edits))
    return attempt(index, plan("", *edits), made, status, **told)


def sites(made):
    return [edit.site for edit in made.edits]


def repaired(failed, cause, memory=None, work=None):
    memory = memory or RunMemory([failed])
    return ExpertRepairer(ToyLibrary(fusing=FUSING), memory, work).repair(failed, diagnosis(cause))


WORK = workload(graph(*OPERATORS))


def test_what_cannot_be_mended_is_not():
    failed = seed(WORK, fuse(0), fuse(1))
    assert ExpertRepairer(ToyLibrary(), RunMemory(), WORK).repair(failed, diagnosis("policy", False)) is None


def test_a_parameter_that_the_edit_chose_is_made_milder_step_by_step():
    base = attempt(0, plan(""), candidate("c0", fused("k0")), over_eager=2.0)
    edit = schedule("k0", "block", 512, skill="block-inner")
    failed = attempt(1, plan("c0", edit), candidate("c1", fused("k0", block=512), "c0"), Status.CRASHED)
    memory, blocks = RunMemory([base, failed]), []
    while (again := repaired(failed, "tile-too-big", memory)) is not None:
        blocks.append(again.edits[0].parameters["block"])
        made = candidate(f"c{len(blocks) + 1}", fused("k0", block=blocks[-1]), "c0")
        failed = attempt(len(blocks) + 1, again, made, Status.CRASHED)
        memory.add(failed)
    assert blocks == [128, 64]  # 256 is the base's own block: nothing would be tried
    assert "repair of c2 (tile-too-big): block = 64" in failed.plan.reason


def test_a_crash_narrows_the_kernels_that_no_edit_scheduled():
    failed = seed(WORK, fuse(0), fuse(1), status=Status.CRASHED, detail="killed by SIGSEGV in k_n1")
    again = repaired(failed, "crash", work=WORK)
    assert sites(again) == ["n0", "n1", "k_n1"]
    assert again.edits[-1].parameters == {"vector_bits": 128}
    assert again.edits[-1].action == "schedule.vector_bits"


def test_a_schedule_that_changes_nothing_in_the_text_is_no_repair():
    """Copying kernels have no accumulators: after inaccuracy the softmax is left out instead."""
    failed = seed(WORK, fuse(0), fuse(1), fuse(2))
    assert sites(repaired(failed, "tolerance", work=WORK)) == ["n0", "n1"]


def test_algebra_that_rounds_is_made_exact_before_anything_is_left_out():
    edit = Edit(skill="simplify-algebra", site="n0", action="nothing", parameters={"level": "rounding"})
    made = candidate("c0", fused("k0"))
    failed = attempt(0, plan("", edit, fuse(1)), made, Status.WRONG_VALUES)
    assert repaired(failed, "tolerance").edits[0].parameters == {"level": "exact"}


def test_the_edit_that_made_the_named_kernel_is_left_out_first():
    failed = seed(WORK, *map(fuse, range(6)), status=Status.BUILD_ERROR, detail="error: in 'k_n2'")
    again = repaired(failed, "build", work=WORK)
    assert sites(again) == ["n0", "n1", "n3", "n4", "n5"]
    assert again.reason == "repair of c0 (build): without online-softmax on n2"


def test_without_the_start_kernels_tell_by_the_skills_that_shaped_them():
    failed = seed(WORK, fuse(0), fuse(1), fuse(2), status=Status.BUILD_ERROR, detail="error: in 'k_n1'")
    assert sites(repaired(failed, "build")) == ["n0", "n2"]


def test_a_wrong_output_points_at_what_feeds_only_it():
    branches = workload(graph("add", "sum", "softmax", outputs=("n0", "n2")))
    errors = [
        FamilyError(
            family="task",
            output=f"output[{place}]",
            rms=rms,
            rms_eager=0.0,
            limit=1e-6,
            worst_abs=None,
            passed=passed,
        )
        for place, rms, passed in ((0, 1e-8, True), (1, 0.5, False))
    ]
    failed = seed(branches, fuse(0), fuse(1), fuse(2), errors=tuple(errors))
    program = Program.model_validate(failed.candidate.program)
    assert suspect_kernels(program, failed.evaluation) == ("k_n1", "k_n2")
    assert sites(repaired(failed, "values", work=branches)) == ["n0", "n1"]


def test_many_edits_without_a_suspect_are_halved():
    failed = seed(WORK, *map(fuse, range(6)))
    again = repaired(failed, "runtime", work=WORK)
    assert sites(again) == ["n0", "n1", "n2"]
    memory = RunMemory([failed, seed(WORK, *again.edits, index=1)])
    assert sites(repaired(failed, "runtime", memory, WORK)) == ["n3", "n4", "n5"]


def test_few_edits_are_left_out_one_by_one_from_the_last():
    failed = seed(WORK, fuse(0), fuse(1), fuse(3))
    history, left = [failed], []
    while (again := repaired(failed, "runtime", RunMemory(history), WORK)) is not None:
        left.append(sites(again))
        history.append(seed(WORK, *again.edits, index=len(history)))
    assert left == [["n0", "n1"], ["n0", "n3"], ["n1", "n3"]]


def test_repairs_of_repairs_end():
    failed = seed(WORK, *map(fuse, range(6)))
    memory, seen = RunMemory([failed]), {tuple(sites(failed.plan))}
    while (again := repaired(failed, "runtime", memory, WORK)) is not None:
        assert tuple(sites(again)) not in seen
        seen.add(tuple(sites(again)))
        failed = seed(WORK, *again.edits, index=len(seen))
        memory.add(failed)
    assert len(failed.plan.edits) == 1


def test_edits_that_only_fit_after_the_one_left_out_go_with_it():
    narrow = schedule("k_n1", "vector_bits", 128)
    failed = seed(WORK, fuse(0), fuse(1), narrow, status=Status.BUILD_ERROR, detail="error in k_n1")
    memory = RunMemory([failed, seed(WORK, fuse(0), fuse(1), index=1)])
    assert sites(repaired(failed, "build", memory, WORK)) == ["n0"]


def test_a_plan_that_could_not_be_written_goes_on_without_what_does_not_fit():
    gone = Edit(skill="fuse-elementwise", site="gone", action="fuse")
    draft = candidate("c0", fused("k0")).model_copy(update={"program": None, "program_hash": ""})
    failed = attempt(
        0, plan("", fuse(0), gone, fuse(1)), draft, Status.BUILD_ERROR, detail="gone is not there"
    )
    assert sites(repaired(failed, "build", work=WORK)) == ["n0", "n1"]


def test_a_repair_never_leads_back_to_the_start_or_to_a_judged_program():
    base = candidate("c0", fused("k0", vector_bits=128))
    edit = schedule("k0", "vector_bits", 256, skill="widen-vectors")
    failed = attempt(1, plan("c0", edit), candidate("c1", fused("k0"), "c0"), Status.CRASHED)
    memory = RunMemory([attempt(0, plan(""), base, over_eager=2.0), failed])
    assert repaired(failed, "illegal-instruction", memory) is None
