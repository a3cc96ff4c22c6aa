"""What to try next, by a model: one admitted skill, a refuted bottleneck, predictions; all of it checked in code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.answers import ExpectedChange, PlanAnswer
from kernelskill.agents.llm.edit import edit_of
from kernelskill.agents.llm.prompts import Section
from kernelskill.agents.llm.reading import UnusableReply, answer_of
from kernelskill.agents.llm.scene import Scene
from kernelskill.agents.llm.worth import require_worth
from kernelskill.protocols import Memory
from kernelskill.records import Attempt, Candidate, Declined, Facts, GateDecision, Plan, Retrieval
from kernelskill.records.model import Expectation, Intent

WHOLE_CARDS = 6
LEAST_PREDICTIONS = 2
STOP = "stop-at-floor"
"""The card that says to stop; it is no change."""


class ModelPlanner:
    """Implements `protocols.Planner`.

    Args:
        scene: of the run.
        on_reference: what the gate says of the captured reference. Of that, skills that no recipe carries out stay
            open on every version: what made room for them may lie within a printed kernel by now.
    """

    def __init__(self, scene: Scene, on_reference: Callable[[], Retrieval | None] = lambda: None) -> None:
        self._scene = scene
        self._on_reference = on_reference
        self._why = ""

    def plan(self, base: Candidate, facts: Facts, retrieval: Retrieval, memory: Memory) -> Plan | None:
        """The model's choice among the admitted skills; None where none is admitted, or it sees nothing worth a try.

        Raises:
            ModelError: no usable answer, no model, no budget, or not worth its price.
        """
        retrieval = self._widened(retrieval)
        skills = tuple(skill for skill in retrieval.admitted if skill != STOP)
        if not skills:
            self._why = "no skill is admitted"
            return None
        scene = self._scene
        parts = (
            *scene.setting(),
            *scene.by_the_gate(sections.bottlenecks_section(retrieval)),
            sections.facts_section(facts),
            sections.source_section(base, "The base", repeats=False),
            sections.history_section(scene.attempts()),
            sections.skills_section(scene.cards(skills), retrieval, WHOLE_CARDS),
            _predictions(scene.attempts()),
            *scene.by_the_gate(sections.refusals_section(retrieval)),
        )
        require_worth(scene, retrieval, facts, parts)
        return scene.ask(
            "planner",
            f"{base.id}-after-{len(memory.attempts())}",
            parts,
            lambda text: self._checked(answer_of(text, PlanAnswer), base, facts, retrieval, memory),
            skills=skills,
        )

    def declined(self) -> Declined:
        """What the model gave as its reason when the last `plan` was None."""
        return Declined(reason=self._why)

    def _widened(self, retrieval: Retrieval) -> Retrieval:
        """With what only a person or a model can carry out and the gate admits on the reference, best first."""
        graph = self._on_reference()
        known = set(retrieval.admitted)
        more = [
            item.model_copy(update={"reason": f"on the reference: {item.reason}", "subject": ""})
            for item in (graph.decisions if graph else ())
            if item.admitted and item.skill not in known and self._scene.shelf.card(item.skill).recipe is None
        ]
        if not more:
            return retrieval
        open_ = [item for item in retrieval.decisions if item.admitted]
        closed = [item for item in retrieval.decisions if not item.admitted]
        ranked = sorted([*open_, *more], key=lambda item: -(item.expected_speedup or 1.0))
        names = {item.skill for item in more}
        return retrieval.model_copy(
            update={"decisions": (*ranked, *(item for item in closed if item.skill not in names))}
        )

    def _checked(
        self, answer: PlanAnswer, base: Candidate, facts: Facts, retrieval: Retrieval, memory: Memory
    ) -> Plan | None:
        """The plan, if it keeps the rules.

        Raises:
            UnusableReply: it does not.
        """
        if answer.stop and not answer.skill:
            author = self._scene.model.author("planner")
            self._why = f"{author} proposes nothing further: {' '.join(answer.stop.split())}"
            return None
        decisions = [item for item in retrieval.decisions if item.admitted and item.skill == answer.skill]
        if not decisions or answer.skill == STOP:
            raise UnusableReply(
                f"The skill {answer.skill!r} is not admitted here. Admitted: {', '.join(retrieval.admitted)}."
            )
        if not answer.steps:
            raise UnusableReply("The plan has no steps.")
        if answer.refuted is None:
            raise UnusableReply("The plan refutes no bottleneck: fill in `refuted`.")
        if len(answer.expects) < LEAST_PREDICTIONS:
            raise UnusableReply(f"The plan needs {LEAST_PREDICTIONS} predictions in `expects` at least.")
        expects = tuple(_expectation(change, facts) for change in answer.expects)
        edit = edit_of(answer.skill, answer.subject, answer.steps)
        refused = memory.tried(base.id, edit)
        if refused:
            raise UnusableReply(f"This plan was {refused}. Give one with another mechanism.")
        decision = _decision(decisions, answer.subject)
        author = self._scene.model.author("planner")
        return Plan(
            base_id=base.id,
            edits=(edit,),
            skill=answer.skill,
            reason=f"{author}: {answer.bottleneck}; {decision.reason}",
            evidence_facts=decision.facts,
            expected_speedup=answer.expected_speedup,
            risk=answer.risk,
            intent=Intent(
                author=author,
                bottleneck=answer.bottleneck,
                refuted=f"{answer.refuted.name}: {answer.refuted.why}",
                steps=answer.steps,
                expects=expects,
            ),
        )


def _decision(decisions: list[GateDecision], subject: str) -> GateDecision:
    return next((item for item in decisions if item.subject == subject), decisions[0])


def _expectation(change: ExpectedChange, facts: Facts) -> Expectation:
    """A prediction about a fact that exists.

    Raises:
        UnusableReply: there is no such fact, so that it could not be compared.
    """
    subject, _, name = change.fact.rpartition(".")
    subject = change.subject or subject
    known = {fact.name for fact in facts.facts}
    if name not in known:
        raise UnusableReply(
            f"There is no fact {name!r} to compare a prediction with. Facts: {', '.join(sorted(known))}."
        )
    value = facts.get(name, subject)
    before = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return Expectation(fact=name, direction=change.direction, subject=subject, before=before)


def _predictions(attempts: Sequence[Attempt]) -> Section:
    """Designs of the plans so far, with what they were to gain and what came."""
    lines = []
    for attempt in attempts:
        expected, evaluation = attempt.plan.expected_speedup, attempt.evaluation
        if attempt.plan.intent is None or expected is None or evaluation is None:
            continue
        came = evaluation.speedup("base")
        if came is not None:
            lines.append(
                f"{attempt.candidate.id}, {attempt.plan.skill}: {expected:.3g}x expected, {came.value:.3g}x came"
            )
    return Section("How good your estimates were", "\n".join(lines), 4)
