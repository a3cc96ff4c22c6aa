"""A suite of tasks: what it is, how a run of it went task by task, and what that amounts to."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from kernelskill.records.base import Json, Record, Scalar
from kernelskill.records.evaluation import Interval, Labels
from kernelskill.records.model import Spent
from kernelskill.records.task import Finding

SuiteKind = Literal["run", "baselines", "audit", "candidates"]
"""What is done to each task: make it faster, time the stock arms, audit it, judge what others wrote."""


class SuiteTask(Record):
    """One file of a suite."""

    key: str
    """Unique in the suite: "level1/19_ReLU", or the file's stem where there are no levels."""
    level: int | None = None
    number: int | None = None
    """The number that the file's name begins with; None where it has none."""
    name: str
    """The file's stem."""
    path: str
    hash: str
    """sha256 of the file's text."""


class Suite(Record):
    """A folder of task files, under a name."""

    name: str
    root: str
    origin: str
    """Folder or address that it was added from."""
    commit: str = ""
    """Of the repository that it lies in; "" outside one."""
    tasks: tuple[SuiteTask, ...] = ()


class Foreign(Record):
    """A kernel of somebody else's, as found in a folder."""

    id: str
    """File name without its ending."""
    path: str
    hash: str
    """sha256 of the file's text."""
    sample: int = 0


class SuiteManifest(Record):
    """What a suite run was asked for; it never changes while the run lives."""

    id: str
    created: str
    kind: SuiteKind
    suite: Suite
    """With the selected tasks only."""
    preset: str = ""
    quick: bool = False
    """Judge by the screen alone (kind "candidates")."""
    settings: dict[str, Json]
    """Of the runs of its tasks; where files lie is not part of it."""
    machine: dict[str, Scalar]
    candidates: dict[str, tuple[Foreign, ...]] = {}
    """Task -> kernels to judge (kind "candidates")."""


class TaskOutcome(StrEnum):
    """How a task ended. Every task of a run has exactly one."""

    FASTER = "faster"
    """The answer is a verified candidate, faster than best stock beyond the noise."""
    VERIFIED = "verified"
    """A candidate was verified, but is not faster than best stock, which is the answer."""
    STOCK = "stock"
    """No candidate was verified; best stock is the answer."""
    REJECTED = "rejected"
    """What was to be judged is wrong, or there was nothing to judge."""
    UNTESTABLE = "untestable"
    """The task can prove nothing."""
    DESCRIBED = "described"
    """Audited or timed; nothing was to be written."""
    FAILED = "failed"
    """The work on it broke off; the reason says how."""


class SecondVerdict(Record):
    """The verdict on the same candidate by the other rule."""

    tolerance: str
    status: str
    detail: str = ""


class Answer(Record):
    """The best that is known of one candidate of a task."""

    id: str
    sample: int = 0
    source_hash: str = ""
    outcome: TaskOutcome
    status: str
    """The judge's word, e.g. "passed", "wrong-values", "integrity"."""
    reason: str = ""
    stage: str = ""
    """Where its speedups come from: "promotion" (fresh processes) or "screen"."""
    tier: str = ""
    labels: Labels = Labels()
    skills: tuple[str, ...] = ()
    over: dict[str, Interval] = {}
    """Stock arm -> verified speedup (baseline_ms / candidate_ms) with its interval."""
    significant: tuple[str, ...] = ()
    """Stock arms that it is faster than beyond the noise, by the judge's own test."""
    time_ms: float | None = None
    noise_band_ratio: float | None = None
    """Half-width of the A/A band that it had to be past."""
    second: SecondVerdict | None = None
    is_baseline: bool = False
    """Whether it is a stock recipe under another name: compiled or graphed, with nothing of its own."""


class StockTime(Record):
    """Time of one stock arm, milliseconds a call."""

    median_ms: float
    p10_ms: float
    p90_ms: float


class StockTimes(Record):
    """The stock arms of a task at one precision."""

    arms: dict[str, StockTime]
    best_arm: str
    unavailable: dict[str, str] = {}
    """Arm -> why it could not run."""
    noise_band_ratio: float

    @property
    def best_ms(self) -> float:
        """Median of the fastest arm, milliseconds."""
        return self.arms[self.best_arm].median_ms


class TaskResult(Record):
    """One line of a suite run's results: a finished task."""

    key: str
    level: int | None = None
    number: int | None = None
    name: str
    hash: str
    """sha256 of the task's text."""
    outcome: TaskOutcome
    reason: str = ""
    """Why it ended so; never empty for anything but "faster"."""
    work: str = ""
    """Class of the task by its heaviest operator: matmul, conv, norm, ..."""
    findings: tuple[Finding, ...] = ()
    moved_bytes: int | None = None
    """Inputs and outputs of a call."""
    state_bytes: int | None = None
    floor_ms: float | None = None
    bound: str = ""
    stock: dict[str, StockTimes] = {}
    """Precision -> stock arms."""
    answers: tuple[Answer, ...] = ()
    attempts: int = 0
    model: Spent = Spent()
    """What language models cost; nothing where none plays."""
    folder: str = ""
    """Where its own records lie, from the suite run's folder."""
    spent_s: dict[str, float] = {}
    """Kind of step -> wall seconds."""
    gpu_s: dict[str, float] = {}
    """Seconds that it had its GPU alone, to time; that it shared it, to compute; and that it waited for it."""
    wall_s: float = 0.0
    """Wall seconds of its process, in all tries of this session."""
    session: str = ""
    """Which session of the suite run finished it."""
    at: str = ""
    """When, in UTC."""
    starved: bool = False
    """Whether memory ran short, so that its verdict does not count until it has run alone on its device."""

    @property
    def answer(self) -> Answer | None:
        """The best of its answers: faster before verified before the rest, then by speedup over best stock."""
        order = {TaskOutcome.FASTER: 2, TaskOutcome.VERIFIED: 1}
        return max(
            self.answers, key=lambda item: (order.get(item.outcome, 0), over_stock(item)), default=None
        )


class SuiteSession(Record):
    """One stretch of work on a suite run, from start to end or kill."""

    id: str
    began: str
    wall_s: float
    jobs: int
    pool: str
    """"local", or "ray" with its address."""
    devices: tuple[str, ...] = ()
    idle_ratio: float | None = None
    """Share of the samples in which a GPU did nothing, over all GPUs; None where that is not told."""
    machine: dict[str, Scalar] = {}


class Spread(Record):
    """Speedups of a group of tasks over one baseline."""

    fast_ratio: dict[str, float]
    """p -> share of all tasks of the group whose interval's lower end is above p."""
    geomean_all: float
    """Geometric mean; every task without a faster answer counts 1.0 (it falls back)."""
    mean_all: float
    """Arithmetic mean, likewise."""
    geomean_verified: float | None
    """Over verified candidates alone, slower ones included."""
    mean_verified: float | None
    median_verified: float | None
    capped: int = 0
    """Speedups cut down to what the floor allows."""


class GroupScore(Record):
    """One row of the score."""

    group: str
    """"all tasks", "without those set aside", "level 1", "work: matmul", "skill: fuse-reduction", ..."""
    tasks: int
    """The denominator of every share."""
    success: int
    """Tasks with a verified candidate that is not a baseline."""
    faster: int
    """Of these, the ones whose candidate is the answer."""
    fallback: int
    """Tasks that end with best stock."""
    rejected: int
    untestable: int
    failed: int
    eager: Spread
    stock: Spread
    floor_share_ratio: float | None = None
    """Geometric mean of floor time over the answer's time, 0..1."""


class SuiteScore(Record):
    """What a suite run amounts to."""

    id: str
    suite: str
    kind: SuiteKind
    preset: str
    finished: int
    selected: int
    groups: tuple[GroupScore, ...]
    set_aside: dict[str, str] = {}
    """Task -> why it is left out of the second row."""
    by_second_rule: dict[str, dict[str, int]] = {}
    """With a preset: outcome by the preset's rule -> verdict by our own -> candidates."""
    wall_s: float
    """Over all sessions."""
    task_s: float
    """Sum over the tasks' own processes."""
    spent_s: dict[str, float]
    """Kind of step -> wall seconds over all tasks."""
    gpu_s: dict[str, float] = {}
    """Seconds that tasks had a GPU alone, shared one, and waited for one, over all tasks."""
    idle_ratio: float | None = None
    model: Spent = Spent()
    """What language models cost over all tasks."""
    samples: int = 1
    """Most candidates judged for one task; the best counts (selection is stated, not hidden)."""


Change = Literal["better", "worse", "same", "gained", "lost"]


class TaskChange(Record):
    """One task in both runs."""

    key: str
    before: TaskOutcome
    after: TaskOutcome
    over_stock_before: Interval | None
    over_stock_after: Interval | None
    change: Change
    """Better or worse only where the intervals do not touch; gained or lost: only one run has a verified answer."""


class SuiteComparison(Record):
    """How the second run differs from the first, over the tasks that both have."""

    first: str
    second: str
    shared: int
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    ratio: dict[str, Interval]
    """Baseline -> geometric mean, over tasks verified in both, of second speedup / first speedup."""
    verified_in_both: int
    changes: tuple[TaskChange, ...]
    differs: tuple[str, ...] = ()
    """Settings and machine facts that differ: what a difference may be due to."""

    def count(self, change: Change) -> int:
        """Tasks of one kind of change."""
        return sum(item.change == change for item in self.changes)


def over_stock(answer: Answer) -> float:
    """Speedup over the stock arm that it beats by least; 0.0 where nothing was measured."""
    return min((item.value for item in answer.over.values()), default=0.0)


def closest_arm(answer: Answer) -> str:
    """The stock arm that it beats by least; "" where nothing was measured."""
    return min(answer.over, key=lambda arm: answer.over[arm].value, default="")


def closest(answer: Answer) -> Interval | None:
    """Its interval over that arm."""
    return answer.over.get(closest_arm(answer))


def sure_speedup(answer: Answer, arm: str) -> float:
    """What it is surely faster by: the interval's lower end, and no gain that the judge put down to noise."""
    low = answer.over[arm].low
    return low if arm in answer.significant else min(low, 1.0)
