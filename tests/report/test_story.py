"""What is said of a finalist that was faster in a screen and not in fresh processes."""

from written_runs import compared, judged

from kernelskill.records import Labels, Status
from kernelskill.report.story import unproven

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
