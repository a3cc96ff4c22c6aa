"""Why a candidate failed, by a model: the table's word first, so that nothing is asked where nothing can be mended."""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.answers import DiagnosisAnswer
from kernelskill.agents.llm.conversation import UnusableAnswers
from kernelskill.agents.llm.reading import answer_of
from kernelskill.agents.llm.scene import Scene
from kernelskill.protocols import Diagnoser
from kernelskill.records import Attempt, Diagnosis


class ModelDiagnoser:
    """Implements `protocols.Diagnoser`.

    Args:
        scene: of the run.
        table: gives the cause in one of its stable words, and says what is never repaired.
    """

    def __init__(self, scene: Scene, table: Diagnoser) -> None:
        self._scene = scene
        self._table = table

    def diagnose(self, attempt: Attempt) -> Diagnosis:
        """Cause by the table; evidence and remedy by the model, where a repair may follow.

        Raises:
            ModelError: no model could be reached, or the budget is spent.
        """
        known = self._table.diagnose(attempt)
        evaluation = attempt.evaluation
        last = attempt.repair >= self._scene.repairs
        if evaluation is None or not known.repairable or last or not attempt.candidate.source:
            return known if attempt.candidate.source else known.model_copy(update={"repairable": False})
        parts = (
            *self._scene.setting(),
            sections.source_section(attempt.candidate, "The candidate"),
            sections.failure_section(evaluation),
            sections.plan_section(attempt.plan),
            sections.history_section(chain_of(self._scene.attempts(), attempt)),
        )
        try:
            answer = self._scene.ask(
                "diagnoser", attempt.candidate.id, parts, lambda text: answer_of(text, DiagnosisAnswer)
            )
        except UnusableAnswers:
            return known
        return Diagnosis(
            cause=known.cause,
            evidence=f"{answer.cause}: {answer.evidence}",
            remedy=answer.remedy,
            repairable=answer.repairable,
        )


def chain_of(attempts: Sequence[Attempt], attempt: Attempt) -> tuple[Attempt, ...]:
    """Earlier attempts at the same plan: its first try and the repairs before this one."""
    first = attempt.index - attempt.repair
    return tuple(item for item in attempts if first <= item.index < attempt.index)
