"""First versions: every structural skill that the gate admits, composed; then variants of that.

Where evidence proves how kernels like those should be run, the first one begins that way, and the same program without
it comes second. Where evidence suspends all that could be done, that is tried once more: a first version is where
tuning begins, and what was slower untuned, or on a busy day, must not end every later run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelskill.agents.forecast import Forecast
from kernelskill.agents.start import captured, hash_of, is_same
from kernelskill.errors import ProgramError
from kernelskill.protocols import SkillLibrary
from kernelskill.records import Attempt, Edit, Facts, Json, Plan, Retrieval, Scalar, Task, Workload

ORDER = (
    "remove-dead-code",
    "simplify-algebra",
    "persistent-recurrence",
    "online-softmax",
    "fuse-row-normalization",
    "fuse-reduction",
    "single-pass-scan",
    "direct-pooling",
    "fuse-elementwise",
)
"""What a rewrite removes, no kernel need compute; steps of a loop go together before chains of one step do; a row
kernel takes its neighbours before plain chains do."""

COMPILE = "library-compile"
GRAPHS = "cuda-graphs"
VARIANTS = (
    ("all structural skills", ORDER),
    ("replayed as one CUDA graph", (*ORDER, GRAPHS)),
    ("convolutions channels-last", ("remove-dead-code", "channels-last", *ORDER[1:])),
    ("without algebra", tuple(skill for skill in ORDER if skill != "simplify-algebra")),
)
MOST_EDITS = 64
"""A network with more sites than this is fused in its first sites."""


class ExpertGenerator:
    """Implements `protocols.Generator`.

    Args:
        library: whose skills are composed.
        forecast: what is known of a program before it is run; without one, evidence has no say.
    """

    def __init__(self, library: SkillLibrary, forecast: Forecast | None = None) -> None:
        self._library = library
        self._forecast = forecast

    def seeds(
        self, task: Task, workload: Workload, facts: Facts, count: int, failed: Sequence[Attempt] = ()
    ) -> Sequence[Plan]:
        """At most `count` plans whose programs differ, best guess first; none where those were `failed` already.

        torch.compile is timed among the baselines already; it is a plan only where nothing was captured.
        """
        if failed:
            return ()
        retrieval = self._library.retrieve(facts)
        start = captured(workload)
        if workload.graph is None:
            return tuple(self._as_it_is(start, workload, facts, retrieval))[:count]
        plans = self._variants(start, workload, facts, retrieval, count)
        if not plans:
            unlearned = ExpertGenerator(self._library.unlearned())
            plans = unlearned._again(start, workload, facts, retrieval)
        return tuple(plans)

    def _again(self, start: Json, workload: Workload, facts: Facts, refused: Retrieval) -> list[Plan]:
        """One plan of what evidence suspends, if that is all there is."""
        plans = self._variants(start, workload, facts, self._library.retrieve(facts), 1)
        why = {item.skill: item.reason for item in refused.decisions if item.skill in _skills(plans)}
        told = "; ".join(f"{skill} is {reason}" for skill, reason in why.items())
        note = f"nothing else is left to try, so once more: {told}"
        return [plan.model_copy(update={"reason": f"{plan.reason}; {note}"}) for plan in plans]

    def _variants(
        self, start: Json, workload: Workload, facts: Facts, retrieval: Retrieval, count: int
    ) -> list[Plan]:
        """At most `count` plans whose programs differ from one another and from the start."""
        plans: list[Plan] = []
        seen = {hash_of(start)}
        for title, order in VARIANTS:
            if len(plans) == count:
                break
            plan, program = self._composed(title, order, start, facts, retrieval)
            experienced = [] if plans else self._experienced(plan, program, workload)
            for item, made in (*experienced, (plan, program)):
                meaning = hash_of(made)
                if meaning not in seen and len(plans) < count:
                    seen.add(meaning)
                    plans.append(item)
        return plans

    def _experienced(self, plan: Plan, program: Json, workload: Workload) -> list[tuple[Plan, Json]]:
        """The plan with what evidence proves for its kernels, and its program; nothing where it proves nothing."""
        if self._forecast is None:
            return []
        edits = []
        for edit in self._library.proven(program, self._forecast.facts(program, workload)):
            try:
                program = self._library.apply(program, edit)
            except ProgramError:
                continue
            edits.append(edit)
        told = "; ".join(edit.summary for edit in edits)
        update = {"edits": (*plan.edits, *edits), "reason": f"{plan.reason}; as paid in like kernels: {told}"}
        return [(plan.model_copy(update=update), program)] if edits else []

    def _composed(
        self, title: str, order: Sequence[str], start: Json, facts: Facts, retrieval: Retrieval
    ) -> tuple[Plan, Json]:
        """The plan of all admitted skills in that order, and the program it gives."""
        program = start
        edits: list[Edit] = []
        left_out: list[str] = []
        for skill in order:
            if skill not in retrieval.admitted:
                left_out += self._refusal(skill, program, facts, retrieval)
                continue
            for edit, changed in self._applied(skill, program, facts, MOST_EDITS - len(edits)):
                program = changed
                edits.append(edit)
        used = tuple(dict.fromkeys(edit.skill for edit in edits))
        reason = "; ".join([f"{title}: {', '.join(used)}", *left_out])
        plan = Plan(
            base_id="",
            edits=tuple(edits),
            skill=used[-1] if used else "",
            reason=reason,
            evidence_facts=_facts(retrieval, used),
        )
        return plan, program

    def _applied(self, skill: str, program: Json, facts: Facts, most: int) -> Iterator[tuple[Edit, Json]]:
        """Edits of a skill that change the program, in turn; proposed anew until none is left."""
        done: set[str] = set()
        progress = True
        while progress:
            progress = False
            for edit in self._library.propose(skill, program, facts):
                if edit.key in done or len(done) >= most:
                    continue
                try:
                    changed = self._library.apply(program, edit)
                except ProgramError:
                    continue
                if is_same(changed, program):
                    continue
                done.add(edit.key)
                program, progress = changed, True
                yield edit, program

    def _refusal(self, skill: str, program: Json, facts: Facts, retrieval: Retrieval) -> list[str]:
        """Why a skill that has a site here was left out; nothing for one without a site."""
        refusals = [item.reason for item in retrieval.decisions if item.skill == skill]
        if not refusals or not self._library.propose(skill, program, facts):
            return []
        return [f"{skill} left out: {refusals[0]}"]

    def _as_it_is(
        self, start: Json, workload: Workload, facts: Facts, retrieval: Retrieval
    ) -> Iterator[Plan]:
        """The reference replayed, and under the stock compiler, which the gate knows too little to refuse."""
        why = workload.capture_error or "no reason given"
        known = {item.skill for item in retrieval.decisions}
        skills = [skill for skill in (GRAPHS,) if skill in retrieval.admitted]
        skills += [skill for skill in (COMPILE,) if skill in known]
        for skill in skills:
            for edit in self._library.propose(skill, start, facts)[:1]:
                decision = next((item for item in retrieval.decisions if item.skill == skill), None)
                yield Plan(
                    base_id="",
                    edits=(edit,),
                    skill=skill,
                    reason=f"{edit.summary}: it was not captured as operators ({why})",
                    evidence_facts=_facts(retrieval, (skill,)),
                    expected_speedup=decision.expected_speedup if decision else None,
                )


def _skills(plans: Sequence[Plan]) -> set[str]:
    """Skills whose edits the plans hold."""
    return {edit.skill for plan in plans for edit in plan.edits}


def _facts(retrieval: Retrieval, skills: Sequence[str]) -> dict[str, Scalar]:
    """What the gate read to admit the skills."""
    found: dict[str, Scalar] = {}
    for decision in retrieval.decisions:
        if decision.admitted and decision.skill in skills:
            found.update(decision.facts)
    return found
