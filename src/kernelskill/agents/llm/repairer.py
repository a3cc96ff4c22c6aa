"""A diagnosis turned into a changed file, by a model."""

from __future__ import annotations

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.conversation import UnusableAnswers
from kernelskill.agents.llm.diagnoser import chain_of
from kernelskill.agents.llm.edit import edit_of
from kernelskill.agents.llm.prompts import Section
from kernelskill.agents.llm.reading import UnusableReply, meaning_of
from kernelskill.agents.llm.scene import Scene
from kernelskill.agents.llm.written import Written, written
from kernelskill.records import Attempt, Diagnosis, Plan
from kernelskill.records.model import Intent


class ModelRepairer:
    """Implements `protocols.Repairer`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def repair(self, attempt: Attempt, diagnosis: Diagnosis) -> Plan | None:
        """The plan with a mended file; None where the model gives none that differs.

        Raises:
            ModelError: no model could be reached, or the budget is spent.
        """
        evaluation = attempt.evaluation
        if evaluation is None or not attempt.candidate.source:
            return None
        scene = self._scene
        parts = (
            *scene.setting(),
            sections.source_section(attempt.candidate, "The candidate"),
            sections.failure_section(evaluation),
            Section("The diagnosis", f"{diagnosis.cause}: {diagnosis.evidence}\nRemedy: {diagnosis.remedy}"),
            sections.history_section(chain_of(scene.attempts(), attempt)),
        )
        try:
            made = scene.ask(
                "repairer",
                attempt.candidate.id,
                parts,
                lambda text: _changed(written(text, scene.hints), attempt),
                cause=diagnosis.cause,
                **scene.writing(),
            )
        except UnusableAnswers:
            return None
        author = scene.model.author("repairer")
        intent = attempt.plan.intent or Intent(author=author)
        mended = intent.model_copy(update={"author": author, "source": made.source, "hints": made.hints})
        steps = (*intent.steps, f"repair of {attempt.candidate.id}", diagnosis.remedy)
        site = attempt.plan.edits[0].site if attempt.plan.edits else ""
        edit = edit_of(attempt.plan.skill, site, steps)
        return attempt.plan.model_copy(
            update={
                "intent": mended,
                "edits": (edit.model_copy(update={"summary": f"repair: {diagnosis.remedy}"[:160]}),),
                "reason": f"repair of {attempt.candidate.id} ({diagnosis.cause}) by {author}",
            }
        )


def _changed(made: Written, attempt: Attempt) -> Written:
    if meaning_of(made.source) == attempt.candidate.program_hash:
        raise UnusableReply("This is the file that failed, unchanged. Change what the diagnosis names.")
    return made
