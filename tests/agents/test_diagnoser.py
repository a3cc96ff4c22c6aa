"""Causes read from verdicts, in the words that the worker and the judge use."""

import pytest
from toy_library import attempt, candidate, fused, plan, schedule

from kernelskill.agents import ExpertDiagnoser
from kernelskill.agents.diagnoser import RULES
from kernelskill.records import FamilyError, Status

GXX = """RuntimeError: the kernels do not compile:
/tmp/x/kernels.cpp: In function 'void softmax(const float*, float*, int)':
/tmp/x/kernels.cpp:41:9: error: size of array 'row' is too large
   41 |   float row[99999999999];"""
SYNTAX = """RuntimeError: the kernels do not compile:
kernels.cpp:12:5: error: 'exp_' was not declared in this scope; did you mean 'exp'?"""
NO_COMPILER = "RuntimeError: g++ is needed to build the kernels: apt-get install g++"


def failed(status, detail="", hint="", *errors):
    made = candidate("c1", fused("k0"), "c0")
    return attempt(
        1, plan("c0", schedule("k0", "block", 64)), made, status, detail=detail, hint=hint, errors=errors
    )


def family(rms, passed=False, output="output[0]"):
    return FamilyError(
        family="task", output=output, rms=rms, rms_eager=1e-7, limit=4e-7, worst_abs=None, passed=passed
    )


def diagnose(*args):
    return ExpertDiagnoser().diagnose(failed(*args))


@pytest.mark.parametrize(
    ("status", "detail", "cause"),
    [
        (Status.BUILD_ERROR, SYNTAX, "build"),
        (Status.BUILD_ERROR, GXX, "tile-too-big"),
        (Status.BUILD_ERROR, "NameError: name 'F' is not defined\n  x = torch.stack(rows)", "build"),
        (Status.BUILD_ERROR, "there is no kernel softmax", "build"),
        (Status.RUNTIME_ERROR, "TypeError: softmax() takes 1 positional argument", "runtime"),
        (Status.WRONG_SHAPE, "output[0] has shape [3], should be [4]", "shape"),
        (Status.WRONG_DTYPE, "output[0] is float64", "dtype"),
        (Status.WRONG_STATE, "buffer bn.running_mean after one call: ...", "state"),
        (Status.OUT_OF_MEMORY, "killed for lack of memory", "memory"),
        (Status.CRASHED, "killed by SIGSEGV\nFatal Python error", "crash"),
        (Status.CRASHED, "killed by SIGILL", "illegal-instruction"),
        (Status.CRASHED, "killed by SIGABRT\n*** stack smashing detected ***: terminated", "tile-too-big"),
        (Status.TIMEOUT, "no answer to load_candidate within 120 s", "build-timeout"),
        (Status.TIMEOUT, "no answer to run within 30 s", "timeout"),
        (Status.TIMEOUT, "used up its processor time", "timeout"),
    ],
)
def test_causes_that_can_be_mended(status, detail, cause):
    diagnosis = diagnose(status, detail)
    assert (diagnosis.cause, diagnosis.repairable) == (cause, True)
    assert diagnosis.evidence
    assert diagnosis.remedy


@pytest.mark.parametrize(
    ("status", "detail", "cause"),
    [
        (Status.BUILD_ERROR, NO_COMPILER, "compiler-missing"),
        (Status.INTEGRITY, "threads were left running", "integrity"),
        (Status.NOT_ALLOWED, "compile is not allowed", "policy"),
        (Status.UNTESTABLE, "the reference fails", "untestable"),
    ],
)
def test_causes_that_cannot(status, detail, cause):
    diagnosis = diagnose(status, detail)
    assert (diagnosis.cause, diagnosis.repairable) == (cause, False)


@pytest.mark.parametrize(("rms", "cause"), [(1e-5, "tolerance"), (0.7, "values"), (None, "non-finite")])
def test_wrong_values_are_told_apart_by_how_wrong_they_are(rms, cause):
    assert diagnose(Status.WRONG_VALUES, "task inputs", "", family(None, True), family(rms)).cause == cause


def test_values_without_a_measured_error_are_wrong_not_inaccurate():
    assert diagnose(Status.WRONG_VALUES, "some elements were never written").cause == "values"


def test_the_evidence_is_what_says_most():
    assert diagnose(Status.BUILD_ERROR, GXX).evidence == "size of array 'row' is too large"
    seen = diagnose(
        Status.WRONG_VALUES, "long text", "", family(1e-9, True), family(1e-5, output="output[1]")
    )
    assert seen.evidence == "task inputs, output[1]: relative error 1e-05 against a limit of 4e-07"
    assert diagnose(Status.CRASHED, "killed by SIGSEGV\nmore").evidence == "killed by SIGSEGV"
    assert diagnose(Status.CRASHED, "", "an index out of bounds").evidence == "an index out of bounds"


def test_every_verdict_but_passed_has_a_diagnosis():
    assert {rule.status for rule in RULES} == set(Status) - {Status.PASSED}


def test_what_did_not_fail_has_none():
    diagnosis = diagnose(Status.PASSED)
    assert (diagnosis.cause, diagnosis.repairable) == ("unknown", False)
    duplicate = failed(Status.PASSED).model_copy(update={"evaluation": None})
    assert not ExpertDiagnoser().diagnose(duplicate).repairable
