"""What to try next: the best-ranked admitted skill with an edit that was not tried here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program, program_hash
from kernelskill.protocols import Memory, SkillLibrary
from kernelskill.records import Candidate, Edit, Facts, GateDecision, Plan, Retrieval


class EditTuner(Protocol):
    """Orders the points of an edit's parameter space."""

    def variants(self, edit: Edit) -> Iterator[Edit]:
        """The edit as proposed first."""
        ...


class ExpertPlanner:
    """Implements `protocols.Planner`."""

    def __init__(self, library: SkillLibrary, tuner: EditTuner) -> None:
        self._library = library
        self._tuner = tuner

    def plan(self, base: Candidate, facts: Facts, retrieval: Retrieval, memory: Memory) -> Plan | None:
        """The first edit, in order of the gate's ranking, that is new on this base and changes the program.

        First every skill gets its own proposal; only then are other values of parameters tried.
        """
        if base.program is None or retrieval.headroom == "low":
            return None
        proposals = [
            (rank, skill, edit)
            for rank, skill in enumerate(retrieval.admitted, 1)
            for edit in self._library.propose(skill, base.program, facts)
        ]
        for rank, skill, edit in proposals:
            if self._is_new(base, edit, memory):
                return self._planned(base, edit, skill, rank, retrieval)
        for rank, skill, edit in proposals:
            for variant in self._tuner.variants(edit):
                if variant.key != edit.key and self._is_new(base, variant, memory):
                    return self._planned(base, variant, skill, rank, retrieval)
        return None

    def _is_new(self, base: Candidate, edit: Edit, memory: Memory) -> bool:
        if memory.tried(base.id, edit):
            return False
        try:
            program = self._library.apply(base.program, edit)
        except ProgramError:
            return False
        return not memory.known(program_hash(Program.model_validate(program)))

    def _planned(self, base: Candidate, edit: Edit, skill: str, rank: int, retrieval: Retrieval) -> Plan:
        decision = _decision(retrieval, skill, edit)
        reason = f"ranked {rank} of {len(retrieval.admitted)} admitted skills"
        return Plan(
            base_id=base.id,
            edits=(edit,),
            skill=skill,
            reason=f"{reason}; {decision.reason}" if decision else reason,
            evidence_facts=decision.facts if decision else {},
        )


def _decision(retrieval: Retrieval, skill: str, edit: Edit) -> GateDecision | None:
    """The admission that concerns the edit's site, else the skill's first."""
    admitted = [item for item in retrieval.decisions if item.admitted and item.skill == skill]
    sites = set(edit.site.split(","))
    return next((item for item in admitted if item.subject in sites), admitted[0] if admitted else None)
