"""Why an attempt failed, read from the verdict; a small table of causes and remedies."""

from __future__ import annotations

import re

from kernelskill.records import Attempt, Diagnosis, Evaluation, Status

COMPILER_MISSING = re.compile(r"g\+\+ is needed|no such file.*g\+\+", re.IGNORECASE)
COMPILER_LINE = re.compile(r"^.*?: (?:fatal )?error: (.*)$", re.MULTILINE)
TOO_BIG = re.compile(r"stack|too large|array size|exceeds|bad_alloc|out of memory|cannot allocate", re.IGNORECASE)

BY_STATUS: dict[Status, tuple[str, str, bool]] = {
    Status.BUILD_ERROR: ("build", "leave out the edit that the compiler refuses", True),
    Status.RUNTIME_ERROR: ("runtime", "leave out the edit whose call raises", True),
    Status.WRONG_SHAPE: ("shape", "leave out the edit that changes a shape", True),
    Status.WRONG_DTYPE: ("dtype", "leave out the edit that changes a dtype", True),
    Status.WRONG_STATE: ("state", "leave out the edit that rewrites the buffer", True),
    Status.WRONG_VALUES: ("tolerance", "sum in more, shorter parts; then leave the edit out", True),
    Status.OUT_OF_MEMORY: ("memory", "a smaller block", True),
    Status.CRASHED: ("crash", "narrower registers and plain stores; then leave the edit out", True),
    Status.TIMEOUT: ("timeout", "a smaller block; then leave the edit out", True),
    Status.INTEGRITY: ("integrity", "nothing: what breaks the rules is not mended", False),
    Status.NOT_ALLOWED: ("policy", "nothing: --allow excludes what it is", False),
    Status.UNTESTABLE: ("untestable", "nothing: the task proves nothing", False),
}


class ExpertDiagnoser:
    """Implements `protocols.Diagnoser`."""

    def diagnose(self, attempt: Attempt) -> Diagnosis:
        """Cause, evidence and smallest remedy of a failed attempt."""
        evaluation = attempt.evaluation
        if evaluation is None or evaluation.status not in BY_STATUS:
            return Diagnosis(cause="unknown", evidence="", remedy="nothing", repairable=False)
        cause, remedy, repairable = BY_STATUS[evaluation.status]
        evidence = _evidence(evaluation)
        if COMPILER_MISSING.search(evaluation.detail):
            return Diagnosis(
                cause="compiler-missing", evidence=evidence, remedy="apt-get install g++", repairable=False
            )
        if evaluation.status in {Status.CRASHED, Status.BUILD_ERROR} and TOO_BIG.search(evaluation.detail):
            return Diagnosis(cause="tile-too-big", evidence=evidence, remedy="a smaller block", repairable=True)
        return Diagnosis(cause=cause, evidence=evidence, remedy=remedy, repairable=repairable)


def _evidence(evaluation: Evaluation) -> str:
    """The line of the detail that says most."""
    compiler = COMPILER_LINE.search(evaluation.detail)
    if compiler:
        return compiler.group(1)[:300]
    failed = [item for item in evaluation.errors if not item.passed]
    if failed:
        item = failed[0]
        return f"{item.family} {item.output}: rms {item.rms} against a limit of {item.limit}"
    lines = [line.strip() for line in evaluation.detail.splitlines() if line.strip()]
    return lines[-1][:300] if lines else evaluation.hint[:300]
