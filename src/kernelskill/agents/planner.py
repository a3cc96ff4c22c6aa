"""What to try next: the edit that the gate expects most of, among those that are new here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelskill.agents.start import hash_of
from kernelskill.errors import ProgramError
from kernelskill.protocols import Memory, SkillLibrary
from kernelskill.records import (
    Attempt,
    Candidate,
    Declined,
    Edit,
    Facts,
    GateDecision,
    Json,
    Plan,
    Retrieval,
    Scalar,
)

MOST_TOGETHER = 4
"""Kernels that one plan changes at most: more would hide the loss of one in the gain of another."""


class EditTuner(Protocol):
    """Chooses points of an edit's parameter space."""

    def ask(self, edit: Edit, told: Sequence[tuple[Edit, float | None]] = ()) -> Edit | None:
        """The next point, given edits tried and their speedup (None = failed); None when the climb has ended."""
        ...


@dataclass(frozen=True)
class Offer:
    """One edit that a recipe proposes, and the decision that admits it."""

    edit: Edit
    decision: GateDecision
    rank: int


class ExpertPlanner:
    """Implements `protocols.Planner`."""

    def __init__(self, library: SkillLibrary, tuner: EditTuner) -> None:
        self._library = library
        self._tuner = tuner
        self._why = ""

    def plan(self, base: Candidate, facts: Facts, retrieval: Retrieval, memory: Memory) -> Plan | None:
        """The best-ranked edit that is new on this base and changes the program; None when none is left.

        First what was never tried in the lineage, the same skill on several kernels as one plan; then further values
        of what was tried; then what gave nothing on an ancestor and may pay now.
        """
        if base.program is None or base.program["wrapper"] == "compile":
            self._why = "it is no program of the expert's, so that no recipe fits it"
            return None
        offers = self._offers(base.program, facts, retrieval)
        told = _told(base.id, memory)
        begun = {(item.skill, item.site, item.action) for item, _ in told}
        search = Search(self._library, self._tuner, base, memory, told)
        fresh = [item for item in offers if _family(item.edit) not in begun]
        for group, what in (
            (fresh, "not tried yet"),
            ([item for item in offers if item not in fresh], "another value"),
        ):
            for offer in group:
                edit = search.point(offer.edit)
                if edit is not None:
                    edits = search.together(edit, offer, fresh) if offer in fresh else (edit,)
                    return _planned(base, edits, offer, len(offers), facts, what, retrieval)
        for offer in offers:
            if search.leads_to_new_program((offer.edit,)):
                return _planned(base, (offer.edit,), offer, len(offers), facts, "second chance", retrieval)
        self._why = _nothing_left(retrieval, offers)
        return None

    def declined(self) -> Declined:
        """What was left of the admitted skills when the last `plan` was None."""
        return Declined(reason=self._why)

    def _offers(self, program: Json, facts: Facts, retrieval: Retrieval) -> list[Offer]:
        """Edits in order of the decisions that admit them."""
        admitted = [item for item in retrieval.decisions if item.admitted]
        proposals = {
            skill: self._library.propose(skill, program, facts)
            for skill in dict.fromkeys(item.skill for item in admitted)
        }
        offers: dict[str, Offer] = {}
        for decision in admitted:
            for edit in proposals[decision.skill]:
                if not decision.subject or decision.subject in _sites(edit):
                    offers.setdefault(edit.key, Offer(edit, decision, len(offers) + 1))
        return list(offers.values())


class Search:
    """Finds new points on one base; what turns out to be no use is remembered while looking."""

    def __init__(
        self,
        library: SkillLibrary,
        tuner: EditTuner,
        base: Candidate,
        memory: Memory,
        told: list[tuple[Edit, float | None]],
    ) -> None:
        self._library = library
        self._tuner = tuner
        self._base = base
        self._memory = memory
        self._told = list(told)

    def point(self, edit: Edit) -> Edit | None:
        """The next point of an edit's space that may be tried and changes the program."""
        while (point := self._tuner.ask(edit, self._told)) is not None:
            if self.leads_to_new_program((point,)):
                return point
            self._told.append((point, None))
        return None

    def together(self, first: Edit, offer: Offer, fresh: Iterable[Offer]) -> tuple[Edit, ...]:
        """The edit, with the same skill on other kernels where that makes one plan.

        What already shared a plan goes alone: the plan as a whole has had its try.
        """
        shared = {
            edit.key
            for attempt in self._memory.attempts()
            for edit in attempt.plan.edits
            if attempt.plan.base_id and len(attempt.plan.edits) > 1
        }
        edits: tuple[Edit, ...] = (first,)
        used = set(_sites(first))
        if not offer.decision.subject or first.key in shared:
            return edits
        for other in fresh:
            alike = (other.edit.skill, other.edit.action) == (first.skill, first.action)
            if len(edits) == MOST_TOGETHER or not alike or used & set(_sites(other.edit)):
                continue
            edit = self.point(other.edit)
            if edit is None or edit.key in shared or not self.leads_to_new_program((*edits, edit)):
                continue
            edits = (*edits, edit)
            used |= set(_sites(edit))
        return edits

    def leads_to_new_program(self, edits: tuple[Edit, ...]) -> bool:
        """Whether the edits may be tried on the base, fit it, and lead to a program that was not judged."""
        if any(self._memory.tried(self._base.id, edit) for edit in edits):
            return False
        meaning = self._meaning(edits)
        return meaning not in {None, self._base.program_hash} and not self._memory.known(meaning or "")

    def _meaning(self, edits: Iterable[Edit]) -> str | None:
        """Hash of the base's program after the edits; None where they do not fit."""
        program = self._base.program
        try:
            for edit in edits:
                program = self._library.apply(program, edit)
        except ProgramError:
            return None
        return hash_of(program)


def _nothing_left(retrieval: Retrieval, offers: Sequence[Offer]) -> str:
    if offers:
        return "every admitted skill has been tried on it"
    return "no admitted skill finds a place in it" if retrieval.admitted else "no skill is admitted"


def _told(base_id: str, memory: Memory) -> list[tuple[Edit, float | None]]:
    """Edits that were tried alone on the base or an ancestor, with what they gave; oldest first."""
    line = _line(base_id, memory.attempts())
    told = []
    for attempt in memory.attempts():
        if attempt.plan.base_id in line and len(attempt.plan.edits) == 1:
            speedup = attempt.evaluation.speedup("base") if attempt.evaluation else None
            told.append((attempt.plan.edits[0], speedup.value if speedup else None))
    return told


def _line(base_id: str, attempts: Sequence[Attempt]) -> set[str]:
    """The base and all that it descends from."""
    parents = {attempt.candidate.id: attempt.candidate.parent_id for attempt in attempts}
    line: set[str] = set()
    while base_id and base_id not in line:
        line.add(base_id)
        base_id = parents.get(base_id, "")
    return line


def _planned(
    base: Candidate,
    edits: tuple[Edit, ...],
    offer: Offer,
    count: int,
    facts: Facts,
    what: str,
    retrieval: Retrieval,
) -> Plan:
    decision = offer.decision
    where = f" on {len(edits)} kernels" if len(edits) > 1 else ""
    return Plan(
        base_id=base.id,
        edits=edits,
        skill=decision.skill,
        reason=f"ranked {offer.rank} of {count} admitted edits ({what}){where}; {decision.reason}",
        evidence_facts=_measured(decision, facts),
        expected_speedup=decision.expected_speedup,
        bottleneck=next(iter(retrieval.bottlenecks), ""),
    )


def _measured(decision: GateDecision, facts: Facts) -> dict[str, Scalar]:
    """Measured facts that the gate read; where it read none, what it read."""
    measured = {
        fact.name
        for fact in facts.facts
        if fact.origin == "measured" and fact.subject in {"", decision.subject}
    }
    found = {name: value for name, value in decision.facts.items() if name in measured}
    return found or decision.facts


def _family(edit: Edit) -> tuple[str, str, str]:
    return edit.skill, edit.site, edit.action


def _sites(edit: Edit) -> tuple[str, ...]:
    return tuple(site.strip() for site in edit.site.split(",") if site.strip())
