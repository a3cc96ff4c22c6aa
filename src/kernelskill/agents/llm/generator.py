"""First versions: whole files, written from the reference, the machine and the skills that the gate admits."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.conversation import UnusableAnswers
from kernelskill.agents.llm.edit import edit_of
from kernelskill.agents.llm.scene import Scene
from kernelskill.agents.llm.written import written
from kernelskill.errors import ModelError
from kernelskill.protocols import SkillLibrary
from kernelskill.records import Attempt, Facts, Plan, Retrieval, Task, Workload
from kernelskill.records.model import Intent

AT_ONCE = 4
"""Versions asked for side by side."""
WHOLE_CARDS = 4
FREE = "free-design"
"""What a first version is filed under where no skill is admitted yet."""


class ModelGenerator:
    """Implements `protocols.Generator`."""

    def __init__(self, scene: Scene, library: SkillLibrary) -> None:
        self._scene = scene
        self._library = library

    def seeds(
        self, task: Task, workload: Workload, facts: Facts, count: int, failed: Sequence[Attempt] = ()
    ) -> Sequence[Plan]:
        """Up to `count` files, asked for side by side; those without a usable answer are left out.

        None where files of its own are among the `failed`: each of them had its repairs.

        Raises:
            ModelError: not one usable answer came.
        """
        if any(attempt.plan.intent is not None for attempt in failed):
            return ()
        retrieval = self._library.retrieve(facts)
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            asked = [
                pool.submit(self._plan, number, count, facts, retrieval) for number in range(1, count + 1)
            ]
        plans: list[Plan] = []
        faults: list[ModelError] = []
        for one in asked:
            try:
                plans.append(one.result())
            except ModelError as error:
                faults.append(error)
        if not plans and faults:
            raise next((fault for fault in faults if not isinstance(fault, UnusableAnswers)), faults[0])
        return tuple(plans)

    def _plan(self, number: int, count: int, facts: Facts, retrieval: Retrieval) -> Plan:
        scene = self._scene
        parts = (
            *scene.setting(),
            sections.facts_section(facts, 2),
            sections.skills_section(scene.cards(retrieval.admitted), retrieval, WHOLE_CARDS),
            sections.history_section(scene.attempts()),
        )
        made = scene.ask(
            "generator",
            f"s{len(scene.memory.attempts())}-{number}",
            parts,
            lambda text: (written(text, scene.hints), _design(text)),
            approaches=count,
            number=number,
            **scene.writing(),
        )
        (source, hints), design = made
        skill = retrieval.admitted[0] if retrieval.admitted else FREE
        author = scene.model.author("generator")
        return Plan(
            base_id="",
            edits=(edit_of(FREE, "", (design or f"version {number}",)),),
            skill=FREE,
            reason=f"version {number} of {count} by {author}; the gate ranks {skill} first",
            intent=Intent(author=author, source=source, hints=hints, steps=(design,) if design else ()),
        )


def _design(text: str) -> str:
    """What the model said about its design before the file; at most 600 characters."""
    head = text.partition("```")[0].strip()
    return " ".join(head.split())[:600]
