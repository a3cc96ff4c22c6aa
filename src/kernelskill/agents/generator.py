"""First versions: every structural skill that the gate admits, composed; then variants of that."""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program, program_hash
from kernelskill.protocols import SkillLibrary
from kernelskill.records import Edit, Facts, Graph, Plan, Retrieval, Task, Workload

ORDER = (
    "remove-dead-code",
    "simplify-algebra",
    "single-pass-scan",
    "direct-pooling",
    "online-softmax",
    "fuse-row-normalization",
    "fuse-reduction",
    "fuse-elementwise",
)
"""What a rewrite removes, no kernel need compute; a row kernel takes its neighbours before plain chains do."""

VARIANTS = (
    ("all structural skills", ORDER),
    ("channels-last", ("remove-dead-code", "channels-last", *ORDER[1:])),
    ("without algebra", tuple(skill for skill in ORDER if skill != "simplify-algebra")),
)
MOST_EDITS = 64
"""A network with more sites than this is fused in its first sites."""


class ExpertGenerator:
    """Implements `protocols.Generator`."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    def seeds(self, task: Task, workload: Workload, facts: Facts, count: int) -> Sequence[Plan]:
        """Plans that differ in their program, best guess first; torch.compile as a candidate comes last."""
        retrieval = self._library.retrieve(facts)
        plans: list[Plan] = []
        seen: set[str] = set()
        if workload.graph is not None:
            seen.add(program_hash(Program.from_graph(workload.graph)))
            for title, order in VARIANTS:
                plan, meaning = self._composed(title, order, workload.graph, facts, retrieval)
                if plan is not None and meaning not in seen:
                    seen.add(meaning)
                    plans.append(plan)
        stock = self._compiled(workload, facts, retrieval)
        plans = plans[: max(1, count - (stock is not None))]
        return (*plans, stock) if stock else tuple(plans)

    def _composed(
        self, title: str, order: tuple[str, ...], graph: Graph, facts: Facts, retrieval: Retrieval
    ) -> tuple[Plan | None, str]:
        program = Program.from_graph(graph).model_dump(mode="json")
        edits: list[Edit] = []
        admitted = retrieval.admitted
        for skill in order:
            if skill not in admitted:
                continue
            while len(edits) < MOST_EDITS:
                added = self._next(skill, program, facts, edits)
                if added is None:
                    break
                edit, program = added
                edits.append(edit)
        if not edits:
            return None, ""
        used = tuple(dict.fromkeys(edit.skill for edit in edits))
        plan = Plan(
            base_id="",
            edits=tuple(edits),
            skill=used[-1],
            reason=f"{title}: {', '.join(used)}",
            evidence_facts=_facts(retrieval, used),
        )
        return plan, program_hash(Program.model_validate(program))

    def _next(
        self, skill: str, program: object, facts: Facts, before: list[Edit]
    ) -> tuple[Edit, object] | None:
        """The skill's next edit that changes the program."""
        done = {edit.key for edit in before}
        for edit in self._library.propose(skill, program, facts):
            if edit.key in done:
                continue
            try:
                changed = self._library.apply(program, edit)
            except ProgramError:
                continue
            return edit, changed
        return None

    def _compiled(self, workload: Workload, facts: Facts, retrieval: Retrieval) -> Plan | None:
        if "library-compile" not in retrieval.admitted:
            return None
        if workload.graph is None:
            return None
        program = Program.from_graph(workload.graph).model_dump(mode="json")
        edits = self._library.propose("library-compile", program, facts)
        if not edits:
            return None
        return Plan(base_id="", edits=tuple(edits[:1]), skill="library-compile", reason="stock compiler as a candidate")


def _facts(retrieval: Retrieval, skills: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for decision in retrieval.decisions:
        if decision.admitted and decision.skill in skills:
            found.update(decision.facts)
    return found
