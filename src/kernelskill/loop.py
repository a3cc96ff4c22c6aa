"""The loop. Read this first.

1. describe   run the reference once, confined: shapes, state, graph; audit: can this task prove anything?
2. floor      the time below which no program can go on this machine
3. baselines  eager and compile, paired; the fastest is the bar ("best stock"). At the floor: stop, nothing to gain
4. seeds      first versions by the generator; the best verified one is the base
5. rounds     profile the base -> facts -> gate -> plan -> write -> judge -> diagnose and repair -> remember;
              what is faster beyond the noise becomes the base
6. finish     the winner is re-timed in fresh processes on fresh inputs, or best stock is the answer; where two
              authors took turns, so is the other one's best, unless the first is faster than its screen promised;
              what a plan predicted of a winner that no round began on is measured

Every step goes through the journal, so its record is on disk before the next begins, and a killed run resumes by
walking the same loop over the recorded steps. This file knows the seams (protocols.py) and records only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kernelskill.errors import ModelError, ProgramError
from kernelskill.journal import Journal
from kernelskill.protocols import (
    Diagnoser,
    Evaluator,
    FeatureReader,
    FloorModel,
    Generator,
    Memory,
    Optimizer,
    Planner,
    Profiler,
    Progress,
    Repairer,
    SkillLibrary,
    Strategy,
)
from kernelskill.records import (
    Attempt,
    Baselines,
    Budget,
    Candidate,
    Declined,
    Evaluation,
    Facts,
    Floor,
    Interval,
    Outcome,
    Plan,
    Result,
    Round,
    Seeds,
    Status,
    StopReason,
    Task,
    Workload,
)  # fmt: skip

AT_THE_FLOOR = 0.95
"""Share of the floor's speed at which nothing is left worth trying (within 5 % of it)."""

OWN_ENDS = frozenset({StopReason.NO_SKILL_LEFT, StopReason.ROUNDS, StopReason.PATIENCE, StopReason.MODEL})
"""Ends of one planner's turn; the next one, if there is one, goes on from the best."""

Stop = tuple[StopReason, str]


@dataclass(frozen=True)
class Parts:
    """One implementation per role; `config.py` alone picks them."""

    floor: FloorModel
    profiler: Profiler
    features: FeatureReader
    library: SkillLibrary
    memory: Memory
    generator: Generator
    planner: Planner
    optimizer: Optimizer
    diagnoser: Diagnoser
    repairer: Repairer
    strategy: Strategy
    successors: tuple[Planner, ...] = ()
    """Planners that go on, one after the other, where the one before has come to its end."""


def optimize(
    task: Task,
    evaluator: Evaluator,
    assemble: Callable[[Workload], Parts],
    budget: Budget,
    journal: Journal,
    progress: Progress,
) -> Result:
    """Make a task faster. Steps already in the journal are read back instead of done.

    Args:
        task: what to beat.
        evaluator: the judge of that task.
        assemble: gives the other parts, once the workload is known.
        budget: when to stop.
        journal: the run's folder.
        progress: what a person sees.
    """
    progress.stage("describe", "running the reference once")
    workload = journal.step("describe", Workload, evaluator.describe)
    evaluator.adopt(workload, None)
    fatal = next((finding for finding in workload.findings if finding.fatal), None)
    if fatal:
        return journal.step("result", Result, lambda: _stock(StopReason.UNTESTABLE, fatal.message, "eager"))
    parts = assemble(workload)
    progress.stage("floor", "bytes and FLOPs against this machine's ceilings")
    floor = journal.step("floor", Floor, lambda: parts.floor.floor(workload))
    progress.stage("baselines", "timing eager and torch.compile")
    baselines = journal.step("baselines", Baselines, evaluator.baselines)
    evaluator.adopt(workload, baselines, floor.floor_ms)
    loop = Loop(task, workload, floor, baselines, evaluator, parts, budget, journal, progress)
    return journal.step("result", Result, loop.run)


@dataclass
class Loop:
    """Steps 4 to 6, once the bar is known."""

    task: Task
    workload: Workload
    floor: Floor
    baselines: Baselines
    evaluator: Evaluator
    parts: Parts
    budget: Budget
    journal: Journal
    progress: Progress
    turn_began: int = 0
    without_gain: int = 0
    spent: set[str] = field(default_factory=set)
    """Bases on which nothing is left to try."""
    observed: set[str] = field(default_factory=set)
    """Bases that were profiled, and their facts read."""

    def __post_init__(self) -> None:
        self.planners = [self.parts.planner, *self.parts.successors]

    def run(self) -> Result:
        """Seeds, rounds, finish."""
        index = 0
        stop = self._nothing_to_gain() or self._answered(self._seed)
        while stop is None:
            index += 1
            stop = self._exhausted(index) or self._answered(partial(self._round, index))
            if stop is not None and self._hands_over(stop[0], index):
                stop = None
        return self._finish(*stop)

    def _answered(self, step: Callable[[], Stop | None]) -> Stop | None:
        """A step; a language model that gives no answer ends a turn, never the run's result."""
        try:
            return step()
        except ModelError as error:
            return StopReason.MODEL, str(error)

    def _hands_over(self, reason: StopReason, index: int) -> bool:
        """Whether another planner goes on, with rounds and patience of its own."""
        if reason not in OWN_ENDS or len(self.planners) == 1:
            return False
        del self.planners[0]
        self.spent.clear()
        self.turn_began, self.without_gain = index, 0
        return True

    def _seed(self) -> Stop | None:
        """First versions; where all of one author's fail, the next author is asked."""
        facts = self.parts.features.read_graph(self.workload, self.floor, baselines=self.baselines)
        failed: list[Attempt] = []
        for turn in range(len(self.planners)):
            self.progress.stage("plan", "first versions")
            key = f"seeds/{turn}" if turn else "seeds"
            seeds = self.journal.step(key, Seeds, partial(self._plans, facts, tuple(failed)))
            if not seeds.plans:
                break
            attempts = [self._attempt(0, None, plan, facts) for plan in seeds.plans]
            if self.parts.strategy.best_of(attempts) is not None:
                return None
            failed += attempts
        if not failed:
            return StopReason.NOTHING_TO_GAIN, self._untouched()
        return StopReason.NO_SEED, f"none of {len(failed)} first versions was verified"

    def _untouched(self) -> str:
        left = ", ".join(list(self.floor.per_node)[:4]) or "nothing"
        share = self.floor.floor_ms / self.baselines.best_ms
        return (
            f"no admitted skill changes this program ({left} stays with the library), and best stock "
            f"({self.baselines.best_arm}) runs at {share:.0%} of the speed that the floor of this machine allows"
        )

    def _plans(self, facts: Facts, failed: tuple[Attempt, ...]) -> Seeds:
        asked = self.task, self.workload, facts, self.budget.seeds, failed
        return Seeds(plans=tuple(self.parts.generator.seeds(*asked)))

    def _round(self, index: int) -> Stop | None:
        """One attempt, on the first base that the strategy names and something is left to try on."""
        looked, why = 0, "every version has been worked on"
        while (base := self._next_base()) is not None:
            step = f"{index:03d}" if looked == 0 else f"{index:03d}-{looked}"
            seen, plan = self._planned(index, step, base)
            if plan is not None:
                attempt = self._attempt(index, base, plan, seen.facts)
                self.without_gain = 0 if attempt.outcome is Outcome.NEW_BASE else self.without_gain + 1
                return None
            self.spent.add(base.candidate.id)
            declined = self.journal.step(f"declined/{step}", Declined, self.planners[0].declined)
            why, looked = f"{base.candidate.id}: {declined.reason}", looked + 1
        return StopReason.NO_SKILL_LEFT, why

    def _next_base(self) -> Attempt | None:
        return self.parts.strategy.base(self.parts.memory.attempts(), self.spent)

    def _planned(self, index: int, step: str, base: Attempt) -> tuple[Round, Plan | None]:
        seen = self.journal.step(f"observe/{step}", Round, lambda: self._observe(index, base))
        self.observed.add(base.candidate.id)
        self.progress.stage("plan", f"round {index}: choosing what to try on {base.candidate.id}")
        plan = self.journal.optional(
            f"plan/{step}",
            Plan,
            lambda: self.planners[0].plan(base.candidate, seen.facts, seen.retrieval, self.parts.memory),
        )
        return seen, plan

    def _observe(self, index: int, base: Attempt) -> Round:
        """Measured facts of the base choose the next edit."""
        self.progress.stage("profile", f"round {index}: measuring {base.candidate.id}")
        profile = self.parts.profiler.profile(base.candidate)
        facts = self.parts.features.read(
            base.candidate, profile, self.floor, evaluation=base.evaluation, baselines=self.baselines
        )
        retrieval = self.parts.library.retrieve(facts)
        return Round(
            index=index,
            base_id=base.candidate.id,
            profile=profile,
            facts=facts,
            retrieval=self.parts.strategy.order(base, retrieval, self.parts.memory.attempts()),
        )

    def _attempt(self, round_index: int, base: Attempt | None, plan: Plan, facts: Facts) -> Attempt:
        """Write and judge a plan; while it fails and can be mended, repair it, within the budget."""
        attempt = self._judge(round_index, 0, base, plan, facts)
        for repair in range(1, self.budget.repairs + 1):
            if attempt.diagnosis is None or not attempt.diagnosis.repairable:
                break
            mended = self.parts.repairer.repair(attempt, attempt.diagnosis)
            if mended is None:
                break
            attempt = self._judge(round_index, repair, base, mended, facts)
        return attempt

    def _judge(
        self, round_index: int, repair: int, base: Attempt | None, plan: Plan, facts: Facts
    ) -> Attempt:
        index = len(self.parts.memory.attempts())
        attempt = self.journal.step(
            f"attempt/{index:03d}", Attempt, lambda: self._try(index, round_index, repair, base, plan)
        )
        self.parts.memory.add(attempt)
        self.parts.library.remember(attempt, facts, {"run": self.journal.folder.name, "task": self.task.id})
        best = self.parts.strategy.best_of(self.parts.memory.attempts())
        gain = best.evaluation.speedup(self.baselines.best_arm) if best and best.evaluation else None
        self.progress.attempt(attempt, gain.value if gain else None)
        return attempt

    def _try(self, index: int, round_index: int, repair: int, base: Attempt | None, plan: Plan) -> Attempt:
        candidate_id = f"c{index:03d}"
        base_candidate = base.candidate if base else None
        self.progress.stage("write", f"{candidate_id}: {plan.skill}")
        draft = Candidate(id=candidate_id, parent_id=plan.base_id, source="")
        attempt = Attempt(
            index=index,
            round=round_index,
            repair=repair,
            plan=plan,
            candidate=draft,
            evaluation=None,
            outcome=Outcome.FAILED,
        )
        try:
            candidate = self.parts.optimizer.write(candidate_id, base_candidate, plan)
        except ProgramError as error:
            return self._settled(
                attempt, draft, Evaluation.unwritten(draft.id, draft.source_hash, str(error))
            )
        twin = self.parts.memory.known(candidate.program_hash) if candidate.program_hash else ""
        if twin:
            return attempt.model_copy(
                update={"candidate": candidate, "outcome": Outcome.DUPLICATE, "duplicate_of": twin}
            )
        self.journal.keep(f"candidates/{candidate_id}.py", candidate.source)
        self.progress.stage(
            "judge", f"{candidate_id}: {plan.edits[-1].summary if plan.edits else plan.skill}"
        )
        evaluation = self.journal.step(
            f"screen/{index:03d}", Evaluation, lambda: self.evaluator.screen(candidate, base_candidate)
        )
        self.journal.keep(f"evaluations/{candidate_id}.json", evaluation.model_dump_json(indent=2))
        return self._settled(attempt, candidate, evaluation)

    def _settled(self, attempt: Attempt, candidate: Candidate, evaluation: Evaluation) -> Attempt:
        """The attempt with its outcome, and with a diagnosis if it failed."""
        attempt = attempt.model_copy(update={"candidate": candidate, "evaluation": evaluation})
        if evaluation.status is not Status.PASSED:
            return attempt.model_copy(update={"diagnosis": self.parts.diagnoser.diagnose(attempt)})
        if attempt.round == 0:
            outcome = Outcome.SEED
        elif self.parts.strategy.is_better(attempt):
            outcome = Outcome.NEW_BASE
        else:
            outcome = Outcome.NOT_FASTER
        return attempt.model_copy(update={"outcome": outcome})

    def _nothing_to_gain(self) -> Stop | None:
        arm, best_ms, floor = self.baselines.best_arm, self.baselines.best_ms, self.floor
        if floor.floor_ms / best_ms < AT_THE_FLOOR:
            return None
        return StopReason.NOTHING_TO_GAIN, (
            f"best stock ({arm}) takes {best_ms:.4g} ms and the floor of this machine is "
            f"{floor.floor_ms:.4g} ms ({floor.bound}-bound)"
        )

    def _exhausted(self, index: int) -> Stop | None:
        budget, spent = self.budget, self.journal.spent_s
        best = self.parts.strategy.best_of(self.parts.memory.attempts())
        share, floor_ms = _share(self.floor, best.evaluation if best else None), self.floor.floor_ms
        if share and share >= AT_THE_FLOOR:
            return StopReason.FLOOR_REACHED, f"{floor_ms / share:.4g} ms; the floor is {floor_ms:.4g} ms"
        if index - self.turn_began > budget.rounds:
            return StopReason.ROUNDS, f"{budget.rounds} rounds"
        if budget.seconds is not None and spent >= budget.seconds:
            return StopReason.SECONDS, f"{spent:.0f} s of {budget.seconds:.0f} s"
        if self.without_gain >= budget.patience:
            return StopReason.PATIENCE, f"{self.without_gain} rounds in a row without a faster base"
        return None

    def _finish(self, reason: StopReason, detail: str) -> Result:
        """Re-time the finalists in fresh processes; the fastest of each author's first that holds is the winner."""
        arm = self.baselines.best_arm
        held: list[tuple[Attempt, Evaluation]] = []
        unproven: list[Evaluation] = []
        for attempt in self.parts.strategy.finalists(self.parts.memory.attempts()):
            candidate = attempt.candidate
            if _is_settled(attempt, held, arm):
                continue
            self.progress.stage("promote", f"re-timing {candidate.id} in fresh processes")
            judged = partial(self.evaluator.promote, candidate)
            promotion = self.journal.step(f"promote/{candidate.id}", Evaluation, judged)
            stock = [item for item in promotion.comparisons if item.arm != "eager" or arm == "eager"]
            holds = promotion.status is Status.PASSED and stock and all(item.significant for item in stock)
            held += [(attempt, promotion)] if holds else []
            unproven += [] if holds else [promotion]
        if held:
            attempt, promotion = max(held, key=lambda pair: _over(pair[1], arm).value)
            self._answered(partial(self._look_back, attempt))
            return Result(
                stop=reason, stop_detail=detail, winner_id=attempt.candidate.id, winner_arm="candidate",
                promotion=promotion, unproven=tuple(unproven), floor_share_ratio=_share(self.floor, promotion),
            )  # fmt: skip
        share = self.floor.floor_ms / self.baselines.best_ms
        known = {"floor_share_ratio": share, "unproven": tuple(unproven)}
        return _stock(reason, detail, arm).model_copy(update=known)

    def _look_back(self, winner: Attempt) -> None:
        """Measure a winner that no round began on, where its plan predicted facts and there is time left."""
        predicted = winner.plan.intent.expects if winner.plan.intent else ()
        timely = self.budget.seconds is None or self.journal.spent_s < self.budget.seconds
        if predicted and winner.candidate.id not in self.observed and timely:
            self.journal.step("observe/winner", Round, lambda: self._observe(winner.round + 1, winner))


def _stock(reason: StopReason, detail: str, arm: str) -> Result:
    """Best stock is the answer: never slower."""
    return Result(stop=reason, stop_detail=detail, winner_id="", winner_arm=arm)


def _share(floor: Floor, evaluation: Evaluation | None) -> float | None:
    """Share of the floor's speed."""
    timings = evaluation.timings if evaluation else ()
    time_ms = next((item.median_ms for item in timings if item.arm == "candidate"), None)
    return floor.floor_ms / time_ms if time_ms else None


def _is_settled(attempt: Attempt, held: Sequence[tuple[Attempt, Evaluation]], arm: str) -> bool:
    """Whether one that holds is by the same author, or faster than this finalist's screen promises."""
    author, seen = attempt.candidate.author, _over(attempt.evaluation, arm).value
    return any(other.candidate.author == author or _over(known, arm).low > seen for other, known in held)


def _over(evaluation: Evaluation | None, arm: str) -> Interval:
    """Speedup over an arm; 0 where nothing was compared with it."""
    return (evaluation.speedup(arm) if evaluation else None) or Interval(low=0.0, value=0.0, high=0.0)
