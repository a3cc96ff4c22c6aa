"""What is said of a finalist that was faster in a screen and not in fresh processes."""

from written_runs import all_failed, compared, judged

from kernelskill.records import Labels, Status
from kernelskill.report.story import headline, unproven

BUSY = "the machine was busy: workers waited 119% of their computing time for a processor"


def test_a_finalist_that_does_not_hold_is_told_with_its_numbers_and_the_reason():
    found = judged("c000", compared("eager", 3.0, 3.1, 3.2), compared("compile", 1.5, 2.0, 2.7, False))
    assert unproven(found) == (
        "Re-timed in fresh processes, c000 came to 2.00x [1.50, 2.70] over compile, not credited: within the noise."
    )
    assert unproven(found.model_copy(update={"labels": Labels(flags=(BUSY,))})).endswith(f"{BUSY}.")


def test_a_finalist_that_fails_in_fresh_processes_is_told_by_its_status():
    failed = judged("c001", status=Status.WRONG_VALUES, detail="no")
    assert unproven(failed) == "Re-timed in fresh processes, c001 was wrong-values."


def test_who_loses_to_a_busy_machine_is_told_how_to_judge_again():
    slow = judged("c000", compared("compile", 1.5, 2.0, 2.7, False))
    busy = slow.model_copy(update={"labels": Labels(flags=(BUSY,))})
    run = all_failed()
    assert "none of 1 attempts beat it beyond the noise." in headline(run)
    for found, told in ((slow, False), (busy, True)):
        result = run.result.model_copy(update={"unproven": (found,)})
        said = headline(run.model_copy(update={"result": result}))
        assert "none of 1 attempts was proven to beat it. Re-timed" in said
        assert (
            said.endswith(f"kernelskill evaluate {run.task.origin} FOLDER-OF-THE-RUN/candidates/c000.py")
            == told
        )
