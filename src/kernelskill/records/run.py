"""A run: its attempts, why it stopped, and what it ended with."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from kernelskill.records.base import Json, Record, Scalar
from kernelskill.records.candidate import Candidate, Plan
from kernelskill.records.evaluation import Baselines, Evaluation
from kernelskill.records.facts import Facts, Floor, Profile
from kernelskill.records.model import CallSummary
from kernelskill.records.task import Task, Workload


class Budget(Record):
    """Limits of one run. None means no limit."""

    rounds: int = 12
    """Optimization rounds after the seeds."""
    seconds: float | None = 600.0
    """Wall seconds for the whole run."""
    repairs: int = 2
    """Repairs in a row on one plan before the loop goes back to the base."""
    patience: int = 4
    """Rounds in a row without a new base before the loop stops."""
    seeds: int = 3
    """First versions to try."""


class StopReason(StrEnum):
    """Why the loop ended."""

    NOTHING_TO_GAIN = "nothing-to-gain"
    """Best stock is within 5 % of the floor, or no admitted skill changes the program: nothing was written."""
    FLOOR_REACHED = "floor-reached"
    NO_SKILL_LEFT = "no-skill-left"
    ROUNDS = "rounds"
    SECONDS = "seconds"
    PATIENCE = "patience"
    UNTESTABLE = "untestable"
    NO_SEED = "no-seed"
    """No first version passed."""
    MODEL = "model"
    """No language model could be reached, it gave no usable answer, its budget is spent, or a round is not worth it."""
    INTERRUPTED = "interrupted"


class GateDecision(Record):
    """Why one skill was admitted or refused for one subject."""

    skill: str
    subject: str
    admitted: bool
    reason: str
    """The condition that decided, with the values of its facts."""
    facts: dict[str, Scalar] = {}
    """Facts that the condition read."""
    measured: bool = False
    """Whether a measured fact took part."""
    expected_speedup: float | None = None
    """Of the whole program, by prior and evidence, if the edit is verified; None for a refusal."""


class Retrieval(Record):
    """The gate's answer for one base."""

    headroom: Literal["high", "medium", "low", "unknown"]
    bottlenecks: tuple[str, ...]
    """Ranked, strongest first, e.g. "memory-bandwidth", "compute", "launch-overhead"."""
    decisions: tuple[GateDecision, ...]

    @property
    def admitted(self) -> tuple[str, ...]:
        """Admitted skills, best first, each once."""
        return tuple(dict.fromkeys(item.skill for item in self.decisions if item.admitted))


class Outcome(StrEnum):
    """What an attempt led to."""

    SEED = "seed"
    NEW_BASE = "new-base"
    NOT_FASTER = "not-faster"
    FAILED = "failed"
    REPAIRED = "repaired"
    """Failed, and a repair of it followed."""
    DUPLICATE = "duplicate"
    """The edit led to a program already judged; nothing was measured."""


class Diagnosis(Record):
    """Why an attempt failed, and the smallest change that should mend it."""

    cause: str
    """Short stable word: tile-too-big, tolerance, build, timeout, crash, shape, dtype, memory, unknown."""
    evidence: str
    remedy: str
    repairable: bool


class Attempt(Record):
    """Plan, candidate and evaluation of one try."""

    index: int
    round: int
    """0 for seeds."""
    repair: int = 0
    """0 for the first try of a plan, k for its k-th repair."""
    plan: Plan
    candidate: Candidate
    evaluation: Evaluation | None
    """None only for a duplicate."""
    outcome: Outcome
    diagnosis: Diagnosis | None = None
    duplicate_of: str = ""


class Seeds(Record):
    """What the generator wants to begin with, best guess first."""

    plans: tuple[Plan, ...]


class Declined(Record):
    """Why a planner had nothing to try on a base."""

    reason: str


class Round(Record):
    """What was known at the start of one round."""

    index: int
    base_id: str
    profile: Profile | None
    facts: Facts
    retrieval: Retrieval


class Result(Record):
    """What a run ends with."""

    stop: StopReason
    stop_detail: str
    winner_id: str
    """Candidate id, or "" when best stock is the answer."""
    winner_arm: str
    """"candidate", or the stock arm that is the answer."""
    promotion: Evaluation | None = None
    """Winner re-timed in fresh processes on fresh inputs; every published ratio comes from it."""
    unproven: tuple[Evaluation, ...] = ()
    """Finalists that were re-timed likewise before it, and did not hold."""
    floor_share_ratio: float | None = None
    """floor_ms / final ms, 0..1."""


class Run(Record):
    """Everything that a report needs; rebuilt from the run folder alone."""

    id: str
    created: str
    task: Task
    target: str
    budget: Budget
    config: dict[str, Json]
    machine: dict[str, Scalar]
    workload: Workload | None = None
    floor: Floor | None = None
    baselines: Baselines | None = None
    rounds: tuple[Round, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    result: Result | None = None
    machine_s: dict[str, float] = {}
    """Step -> wall seconds spent."""
    model_calls: tuple[CallSummary, ...] = ()
    """Calls of language models, in order."""
