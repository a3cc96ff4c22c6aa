"""Why an attempt failed, read from the verdict; a small table of causes and remedies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kernelskill.records import Attempt, Diagnosis, Evaluation, Status

COMPILER_LINE = re.compile(r"^.*?: (?:fatal )?error: (.*)$", re.MULTILINE)
ROUNDING = 1e-2
"""Relative error above which a result is wrong, not inaccurate."""


@dataclass(frozen=True)
class Rule:
    """A cause, and how to tell it from an evaluation of that status."""

    status: Status
    cause: str
    remedy: str
    pattern: str = ""
    """Must be found in the detail or the hint ("" = always is)."""
    holds: Callable[[Evaluation], bool] = lambda evaluation: True
    repairable: bool = True

    def fits(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation shows this cause."""
        said = f"{evaluation.detail}\n{evaluation.hint}"
        found = re.search(self.pattern, said, re.IGNORECASE) is not None
        return evaluation.status is self.status and found and self.holds(evaluation)


def _is_rounding(evaluation: Evaluation) -> bool:
    """Whether all that failed is off by little: too inaccurate, not wrong."""
    failed = [item for item in evaluation.errors if not item.passed]
    return bool(failed) and all(item.rms is not None and item.rms < ROUNDING for item in failed)


def _is_not_finite(evaluation: Evaluation) -> bool:
    return any(item.rms is None for item in evaluation.errors if not item.passed)


TOO_BIG = r"size of (array|variable) .*(too large|exceeds)|stack (frame|size|usage)|exceeds maximum"
RULES = (
    Rule(
        Status.BUILD_ERROR,
        "compiler-missing",
        "install g++: apt-get install g++",
        r"g\+\+ is needed|no such file.*g\+\+",
        repairable=False,
    ),
    Rule(Status.BUILD_ERROR, "tile-too-big", "a smaller block", TOO_BIG),
    Rule(Status.BUILD_ERROR, "build", "leave out the edit that cannot be built"),
    Rule(Status.RUNTIME_ERROR, "runtime", "leave out the edit whose call raises"),
    Rule(Status.WRONG_SHAPE, "shape", "leave out the edit that changes a shape"),
    Rule(Status.WRONG_DTYPE, "dtype", "leave out the edit that changes a dtype"),
    Rule(Status.WRONG_STATE, "state", "leave out the edit that rewrites the buffer"),
    Rule(
        Status.WRONG_VALUES,
        "tolerance",
        "sum in more, shorter parts; then undo what rounds differently",
        holds=_is_rounding,
    ),
    Rule(
        Status.WRONG_VALUES,
        "non-finite",
        "undo what may overflow where the reference does not",
        holds=_is_not_finite,
    ),
    Rule(Status.WRONG_VALUES, "values", "leave out the edit that computes something else"),
    Rule(Status.OUT_OF_MEMORY, "memory", "fewer and smaller temporaries"),
    Rule(Status.CRASHED, "illegal-instruction", "narrower registers", "SIGILL"),
    Rule(Status.CRASHED, "tile-too-big", "a smaller block", r"stack (overflow|smashing)|bad_alloc"),
    Rule(Status.CRASHED, "crash", "plain stores and narrower registers; then leave the edit out"),
    Rule(
        Status.TIMEOUT,
        "build-timeout",
        "less code: no unrolling, fewer accumulators",
        r"no answer to load_candidate",
    ),
    Rule(Status.TIMEOUT, "timeout", "leave out the edit that does not end"),
    Rule(Status.INTEGRITY, "integrity", "nothing: what breaks the rules is not mended", repairable=False),
    Rule(Status.NOT_ALLOWED, "policy", "nothing: --allow excludes what it is", repairable=False),
    Rule(Status.UNTESTABLE, "untestable", "nothing: the task proves nothing", repairable=False),
)
"""The first that fits is the diagnosis."""


class ExpertDiagnoser:
    """Implements `protocols.Diagnoser`."""

    def diagnose(self, attempt: Attempt) -> Diagnosis:
        """Cause, evidence and smallest remedy of a failed attempt; "unknown" for one that did not fail."""
        evaluation = attempt.evaluation
        rule = next((item for item in RULES if evaluation and item.fits(evaluation)), None)
        if evaluation is None or rule is None:
            return Diagnosis(cause="unknown", evidence="", remedy="nothing", repairable=False)
        return Diagnosis(
            cause=rule.cause,
            evidence=_evidence(evaluation),
            remedy=rule.remedy,
            repairable=rule.repairable,
        )


def _evidence(evaluation: Evaluation) -> str:
    """What was seen, in one line: the compiler's error, the failed gate, or the first line of the detail."""
    compiler = COMPILER_LINE.search(evaluation.detail)
    if compiler:
        return compiler.group(1)[:300]
    failed = next((item for item in evaluation.errors if not item.passed), None)
    if failed:
        rms = "not finite" if failed.rms is None else f"{failed.rms:.3g}"
        limit = "" if failed.limit is None else f" against a limit of {failed.limit:.3g}"
        return f"{failed.family} inputs, {failed.output}: relative error {rms}{limit}"
    lines = [line.strip() for line in evaluation.detail.splitlines() if line.strip()]
    return (lines[0] if lines else evaluation.hint)[:300]
