"""The seams: one Protocol per role. `optimize.py` knows only these; `config.py` picks the implementations.

A second target (CUDA), a language model in a role, or another search is a second class behind one of these.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

from kernelskill.records import (
    Attempt,
    Baselines,
    Candidate,
    Ceilings,
    Declined,
    Diagnosis,
    Edit,
    Evaluation,
    Facts,
    Floor,
    Json,
    Plan,
    Profile,
    Retrieval,
    Task,
    Workload,
)
from kernelskill.records.model import Message, Reply, Role


class Evaluator(Protocol):
    """The judge of one task on one device. Candidates' failures are values, never exceptions."""

    def describe(self) -> Workload:
        """Run the reference once, confined: shapes, state, audit findings, graph.

        Raises:
            TaskError: the reference cannot be loaded or run; one clear line.
        """
        ...

    def baselines(self) -> Baselines:
        """Time the stock arms (paired, shuffled) and the A/A band."""
        ...

    def adopt(self, workload: Workload, baselines: Baselines | None, floor_ms: float | None = None) -> None:
        """Go on with what an earlier process of the same run measured; workers start when they are needed."""
        ...

    def screen(self, candidate: Candidate, base: Candidate | None) -> Evaluation:
        """Correctness on fresh secret inputs and short paired timing against best stock, eager and the base."""
        ...

    def promote(self, candidate: Candidate) -> Evaluation:
        """Winner, eager and best stock paired in the same fresh process sets; published ratios come from here."""
        ...

    def profile(self, candidate: Candidate, kernels: Sequence[str]) -> Json:
        """Raw step times from a profiling worker; `kernels` are module-level functions to time. Advisory only."""
        ...

    def count(self, candidate: Candidate, metrics: Sequence[str]) -> Json:
        """A GPU's counters of one call: {"log": what ncu printed}, with "error" where it failed. Advisory only."""
        ...

    def close(self) -> None:
        """End every worker. Nothing is left behind."""
        ...


class FloorModel(Protocol):
    """Bytes, FLOPs and launches against this machine's measured ceilings."""

    def ceilings(self) -> Ceilings:
        """Measured once and cached."""
        ...

    def floor(self, workload: Workload) -> Floor:
        """The time below which no program can go."""
        ...


class Profiler(Protocol):
    """Where the time of a candidate goes."""

    def profile(self, candidate: Candidate) -> Profile:
        """Counters, timeline or static data; says which. Never raises for missing counters."""
        ...


class FeatureReader(Protocol):
    """Program + profile + device -> facts."""

    def read(
        self,
        candidate: Candidate,
        profile: Profile | None,
        floor: Floor,
        *,
        evaluation: Evaluation | None = None,
        baselines: Baselines | None = None,
    ) -> Facts:
        """Facts of one candidate, each with its origin: measured, parsed or judged."""
        ...

    def read_graph(self, workload: Workload, floor: Floor, *, baselines: Baselines | None = None) -> Facts:
        """Facts of the captured reference, before anything was written."""
        ...


class SkillLibrary(Protocol):
    """Long-term memory: what may be tried here, and why."""

    def retrieve(self, facts: Facts) -> Retrieval:
        """Gate, then ranking by prior and evidence. Deterministic."""
        ...

    def propose(self, skill: str, program: Json, facts: Facts) -> Sequence[Edit]:
        """Edits that an executable skill offers for a program; [] when it has no site."""
        ...

    def proven(self, program: Json, facts: Facts) -> Sequence[Edit]:
        """Edits of kernels that were not run yet, on the word of evidence alone; [] where it says nothing."""
        ...

    def unlearned(self) -> SkillLibrary:
        """The same skills by their priors alone: what evidence suspends is offered again."""
        ...

    def apply(self, program: Json, edit: Edit) -> Json:
        """The program after an edit.

        Raises:
            ProgramError: the edit does not fit the program.
        """
        ...

    def remember(self, attempt: Attempt, facts: Facts, context: Json) -> None:
        """Add one row of evidence; idempotent by run and attempt."""
        ...


class Memory(Protocol):
    """Short-term memory of one run."""

    def add(self, attempt: Attempt) -> None:
        """Remember an attempt."""
        ...

    def tried(self, base_id: str, edit: Edit) -> str:
        """Why this edit must not be tried on this base ("" = it may): tried there, or failed on an ancestor."""
        ...

    def known(self, program_hash: str) -> str:
        """Id of a candidate with the same program, or ""."""
        ...

    def attempts(self) -> Sequence[Attempt]:
        """All attempts in order."""
        ...


class Generator(Protocol):
    """Writes first versions."""

    def seeds(
        self, task: Task, workload: Workload, facts: Facts, count: int, failed: Sequence[Attempt] = ()
    ) -> Sequence[Plan]:
        """Plans for the first versions, best guess first.

        Args:
            task: what to beat.
            workload: its shapes and graph.
            facts: of the captured reference.
            count: most plans.
            failed: first versions that were judged already, none of them verified. Only somebody who was not asked yet
                has an answer to them.
        """
        ...


class Planner(Protocol):
    """Chooses what to try next."""

    def plan(self, base: Candidate, facts: Facts, retrieval: Retrieval, memory: Memory) -> Plan | None:
        """One skill (or disjoint set) with parameters, or None when nothing admitted is left to try."""
        ...

    def declined(self) -> Declined:
        """Why the last `plan` was None, as a clause about its base."""
        ...


class Optimizer(Protocol):
    """Turns a plan into source."""

    def write(self, candidate_id: str, base: Candidate | None, plan: Plan) -> Candidate:
        """A new candidate.

        Raises:
            ProgramError: the plan does not fit the base's program.
        """
        ...


class Diagnoser(Protocol):
    """Says why an attempt failed."""

    def diagnose(self, attempt: Attempt) -> Diagnosis:
        """Cause, evidence, smallest remedy."""
        ...


class Repairer(Protocol):
    """Turns a diagnosis into another plan for the same goal."""

    def repair(self, attempt: Attempt, diagnosis: Diagnosis) -> Plan | None:
        """A changed plan on the same base, or None when there is nothing to mend."""
        ...


class Strategy(Protocol):
    """How a run searches: which candidate is worked on next, and in which order skills are tried on it.

    Answers depend on the attempts alone, so a resumed run searches on as the killed one would have.
    """

    def base(self, attempts: Sequence[Attempt], spent: Container[str]) -> Attempt | None:
        """The attempt whose candidate the next edit starts from.

        Args:
            attempts: all so far, in order.
            spent: ids of candidates on which nothing is left to try.

        Returns:
            None where nothing is left to work on.
        """
        ...

    def order(self, base: Attempt, retrieval: Retrieval, attempts: Sequence[Attempt]) -> Retrieval:
        """The gate's answer for a base, with its admitted decisions in the order to try them."""
        ...

    def is_better(self, attempt: Attempt) -> bool:
        """Noise-aware: the interval's lower end above 1 over the base, and the median past the A/A band."""
        ...

    def best_of(self, attempts: Sequence[Attempt]) -> Attempt | None:
        """The fastest verified one, by speedup over best stock; None if none passed."""
        ...

    def finalists(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """Those to re-time in fresh processes at the end, likeliest winner first."""
        ...


class Progress(Protocol):
    """What a person sees while a run goes on."""

    def stage(self, name: str, detail: str = "") -> None:
        """A step begins."""
        ...

    def attempt(self, attempt: Attempt, best_speedup: float | None) -> None:
        """An attempt was judged."""
        ...

    def done(self) -> None:
        """Nothing more will be shown."""
        ...


class LanguageModel(Protocol):
    """A language model behind its budget and its record."""

    def reply(self, role: Role, key: str, messages: Sequence[Message], max_tokens: int) -> Reply:
        """The reply at one place of the run; a place that was answered before is not paid again.

        Raises:
            ModelError: no model could be reached, or the budget is spent.
        """
        ...

    def author(self, role: Role) -> str:
        """Name of the model that plays a role."""
        ...

    def expected_usd(self, role: Role, prompt_chars: int, max_tokens: int) -> float | None:
        """About what a call would cost; None where no price is known."""
        ...


class Printer(Protocol):
    """Program -> source text of one target."""

    def source(self, program: Json, task: Task, workload: Workload) -> str:
        """One readable file that defines `ModelNew`."""
        ...
