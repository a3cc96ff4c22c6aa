"""A plan in words carried out: a whole file, changed where the plan says."""

from __future__ import annotations

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.conversation import UnusableAnswers
from kernelskill.agents.llm.reading import meaning_of
from kernelskill.agents.llm.scene import Scene
from kernelskill.agents.llm.written import Written, written
from kernelskill.errors import ProgramError
from kernelskill.records import Candidate, Plan

WHOLE_CARDS = 1
BUILDS = {"cpu": "CDLL(", "cuda": "cuLaunchKernel"}
"""What stands in a base that shows how kernels are built and launched here."""


class ModelOptimizer:
    """Implements `protocols.Optimizer`. Its candidates are text: they have no program behind them."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def write(self, candidate_id: str, base: Candidate | None, plan: Plan) -> Candidate:
        """The file that the plan brought along, or one that carries it out.

        Raises:
            ProgramError: the model gave no usable file; that is this plan's failure, not the run's.
            ModelError: no model could be reached, or the budget is spent.
        """
        intent = plan.intent
        if intent is None:
            raise ProgramError(f"the plan of {candidate_id} holds no words to carry out")
        if intent.source:
            made = Written(intent.source, intent.hints)
        elif base is None:
            raise ProgramError(f"the plan of {candidate_id} has neither a file nor a base")
        else:
            made = self._written(candidate_id, base, plan)
        told = "; ".join(made.hints)
        return Candidate(
            id=candidate_id,
            parent_id=plan.base_id,
            source=made.source,
            program_hash=meaning_of(made.source),
            skills=(*(base.skills if base else ()), plan.skill),
            author=self._scene.model.author("optimizer") if not intent.source else intent.author,
            note=f"{plan.reason}{f'; hints: {told}' if told else ''}",
        )

    def _written(self, candidate_id: str, base: Candidate, plan: Plan) -> Written:
        scene = self._scene
        parts = (
            *scene.setting(),
            sections.plan_section(plan),
            sections.source_section(base, "The base"),
            sections.skills_section(scene.cards([plan.skill]), None, WHOLE_CARDS),
            sections.variants_section(scene.attempts(), base),
            sections.history_section(scene.attempts(), most=6),
        )
        try:
            return scene.ask(
                "optimizer",
                candidate_id,
                parts,
                lambda text: written(text, scene.hints),
                base_is_written=base.program is None,
                base_builds=BUILDS[scene.target] in base.source,
                **scene.writing(),
            )
        except UnusableAnswers as error:
            raise ProgramError(str(error)) from error
