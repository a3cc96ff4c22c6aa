"""What the judge says about a candidate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import model_validator

from kernelskill.records.base import Record


class Status(StrEnum):
    """Verdict on one candidate. Everything but PASSED carries no speedup."""

    PASSED = "passed"
    BUILD_ERROR = "build-error"
    """The source, or a kernel in it, does not compile or import."""
    RUNTIME_ERROR = "runtime-error"
    """forward raised."""
    WRONG_SHAPE = "wrong-shape"
    WRONG_DTYPE = "wrong-dtype"
    WRONG_VALUES = "wrong-values"
    WRONG_STATE = "wrong-state"
    """Buffers that the reference rewrites end up different."""
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    """The worker died by a signal, or left without an answer (exit 0 included)."""
    OUT_OF_MEMORY = "out-of-memory"
    INTEGRITY = "integrity"
    """Caught cheating: tampered with the protocol, inputs, clock, threads after return, lazy outputs."""
    NOT_ALLOWED = "not-allowed"
    """Correct, but `--allow` excludes what it is."""
    UNTESTABLE = "untestable"
    """The task can prove nothing (constant output, stochastic reference): no speedup is credited."""


class Interval(Record):
    """A ratio with its 95 % confidence interval."""

    low: float
    value: float
    high: float


class FamilyError(Record):
    """Error of one input family against the fp64 twin."""

    family: str
    """`task` is the task's own inputs; `signed`, `scaled`, `shifted`, ... are the hidden families."""
    output: str
    """Which output ("output[0]", or a buffer's path)."""
    rms: float | None
    """Root mean square error relative to the root mean square of the fp64 result; None if not finite."""
    rms_eager: float | None
    """The same for eager at the tier judged."""
    limit: float | None
    """Largest rms that this gate passes."""
    worst_abs: float | None
    passed: bool
    note: str = ""


class Timing(Record):
    """Times of one arm, milliseconds a call, by the ranking clock."""

    arm: str
    """"candidate", "eager", "compile", "graph", "compile+graph", "base"."""
    median_ms: float
    p10_ms: float
    p90_ms: float
    samples_ms: tuple[tuple[float, ...], ...]
    """Raw per-round times, one tuple per process set."""
    worker_ms: float | None = None
    """The worker's own (untrusted) median, for comparison with the judge's."""


class Comparison(Record):
    """Speedup over one arm: baseline_ms / candidate_ms, from rounds paired in the same process sets."""

    arm: str
    speedup: Interval
    rounds: int
    sets: int
    significant: bool
    """Lower end above 1 and median past the A/A noise band."""


Label = Literal["custom", "library", "compile", "graph", "algebraic", "frozen-weights", "specialised"]


class Labels(Record):
    """What the candidate is, seen from what ran."""

    kinds: tuple[
        Literal["custom", "library", "compile", "graph", "algebraic", "frozen-weights", "specialised"], ...
    ] = ()
    own_share_ratio: float | None = None
    """Share of forward's time in its own kernels, 0..1."""
    operators: tuple[str, ...] = ()
    """Library operators dispatched in a call."""
    flags: tuple[str, ...] = ()
    """Anything suspicious that is shown but does not decide (global settings changed, beyond the floor)."""


class Evaluation(Record):
    """One judgement. A number for speed can only exist on a PASSED one."""

    candidate_id: str
    source_hash: str
    stage: Literal["screen", "promotion"]
    status: Status
    detail: str = ""
    """For a failure: what happened, in the words of the failing side (never parsed for a verdict)."""
    hint: str = ""
    """What usually causes this, and what to try."""
    tier: str = ""
    """Strictest tier met: "match", "fp32", "tf32", "reduced"."""
    errors: tuple[FamilyError, ...] = ()
    timings: tuple[Timing, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    noise_band_ratio: float | None = None
    """Half-width of the A/A band on this machine during this evaluation, e.g. 0.02."""
    labels: Labels = Labels()
    sandbox: str = ""
    """Sandbox level that the candidate ran under, with its layers."""
    seed_commitment: str = ""
    """sha256 of the secret seed, so that the inputs can be shown afterwards to have been fixed beforehand."""
    seed: str = ""
    """The seed itself, written after the candidate is dead."""
    machine_s: float = 0.0
    """Wall seconds that the evaluation took."""

    @model_validator(mode="after")
    def _speed_only_if_passed(self) -> Self:
        if self.status is not Status.PASSED and (self.comparisons or self.timings):
            raise ValueError(f"a {self.status} evaluation cannot carry a time or a speedup")
        return self

    @classmethod
    def unwritten(cls, candidate_id: str, source_hash: str, why: str) -> Evaluation:
        """Of a candidate whose plan does not fit its program: there is nothing to measure."""
        return cls(
            candidate_id=candidate_id,
            source_hash=source_hash,
            stage="screen",
            status=Status.BUILD_ERROR,
            detail=why,
        )

    def speedup(self, arm: str) -> Interval | None:
        """Speedup over one arm, or None if it was not compared."""
        return next((item.speedup for item in self.comparisons if item.arm == arm), None)


class Baselines(Record):
    """The stock recipes of the task on this machine. The fastest valid one ("best stock") is the bar."""

    timings: tuple[Timing, ...]
    best_arm: str
    """Fastest arm at the task's precision."""
    unavailable: dict[str, str] = {}
    """Arm -> why it could not run."""
    noise_band_ratio: float
    """From an A/A comparison of eager with itself through the whole path."""
    null_ms: float
    """Judge's transport cost per call (copy in, doorbell, copy out), subtracted from every arm."""

    def ms(self, arm: str) -> float | None:
        """Median of one arm in milliseconds."""
        return next((timing.median_ms for timing in self.timings if timing.arm == arm), None)

    @property
    def best_ms(self) -> float:
        """Median of the best stock arm, milliseconds."""
        value = self.ms(self.best_arm)
        assert value is not None
        return value
