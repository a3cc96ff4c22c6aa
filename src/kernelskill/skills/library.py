"""Long-term memory as one object: cards and recipes from folders, the gate, and evidence."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kernelskill.errors import KernelSkillError, ProgramError, SkillError
from kernelskill.records import Attempt, Edit, Facts, GateDecision, Json, Retrieval
from kernelskill.skills.card import CARD, Card, read_card
from kernelskill.skills.evidence import NEWEST, EvidenceStore
from kernelskill.skills.experience import Evidence, context_of, evidence_of
from kernelskill.skills.gate import Situation, assess, decide, is_ruled_out
from kernelskill.skills.programs import Programs
from kernelskill.skills.proven import fitting, proven
from kernelskill.skills.quarantine import Quarantine
from kernelskill.skills.ranking import Estimate, estimate, of_program
from kernelskill.skills.sources import folders
from kernelskill.skills.unprinted import is_unprinted

if TYPE_CHECKING:
    from kernelskill.program.program import Program

DISTILLED = "skills"
"""Folder beside the evidence that distilled skills are written to."""
_log = logging.getLogger(__name__)


def find_cards(folders: Sequence[Path]) -> tuple[Path, ...]:
    """SKILL.md files of skill folders, or of folders that hold skill folders, in order of name.

    Raises:
        SkillError: a folder is missing, or holds no skill.
    """
    found: list[Path] = []
    for folder in folders:
        here = [folder / CARD] if (folder / CARD).is_file() else sorted(folder.glob(f"*/{CARD}"))
        if not here:
            state = "holds no skill (<skill>/SKILL.md)" if folder.is_dir() else "does not exist"
            raise SkillError(f"skill folder {folder}: {state}")
        found += here
    return tuple(dict.fromkeys(found))


def read_cards(folders: Sequence[Path]) -> tuple[Card, ...]:
    """All cards of the folders.

    Raises:
        SkillError: a card breaks a rule, an id is given twice, or a conflict names no skill.
    """
    cards: dict[str, Card] = {}
    for path in find_cards(folders):
        card = read_card(path)
        if card.id in cards:
            raise SkillError(f"{path}: id: {card.id!r}: already the id of {cards[card.id].path}")
        cards[card.id] = card
    for card in cards.values():
        for other in card.conflicts:
            if other not in cards:
                raise SkillError(f"{card.path}: conflicts: {other!r}: no skill has this id")
    return tuple(cards.values())


class ExpertLibrary:
    """The expert's skills. Implements `protocols.SkillLibrary`.

    `device` names the machine in evidence; without a store nothing is learnt and priors alone rank.
    """

    def __init__(self, store: EvidenceStore | None, extra: Sequence[Path] = (), device: str = "") -> None:
        self.store = store
        self.device = device
        self._quarantine = Quarantine(store.path.parent / DISTILLED) if store else None
        distilled: tuple[Path, ...] = ()
        if store and self._quarantine:
            for skill in self._quarantine.promote(store):
                _log.info("distilled skill %s is approved: it won on other tasks", skill)
            distilled = self._quarantine.folders()
        self._cards = {card.id: card for card in read_cards((*folders(extra), *distilled))}
        self._recipes: dict[str, ModuleType] = {}
        self._programs = Programs()

    def cards(self) -> tuple[Card, ...]:
        """All cards, in order of reading."""
        return tuple(self._cards.values())

    def card(self, skill: str) -> Card:
        """One card by id.

        Raises:
            SkillError: no such skill.
        """
        if skill not in self._cards:
            raise SkillError(f"no skill {skill!r}; known: {', '.join(sorted(self._cards))}")
        return self._cards[skill]

    def retrieve(self, facts: Facts) -> Retrieval:
        """Gate, then order: admitted ones by expected gain, best first, then refusals by skill and subject."""
        situation = assess(facts)
        return Retrieval(
            headroom=situation.headroom,
            bottlenecks=tuple(item.name for item in situation.bottlenecks),
            decisions=self._decisions(self.cards(), situation),
        )

    def estimate(self, skill: str, subject: str, facts: Facts) -> Estimate:
        """What is expected of a skill on one subject of a base, by prior and evidence."""
        card = self.card(skill)
        return self._estimate(card, subject, assess(facts), self._rows(card))

    def propose(self, skill: str, program: Json, facts: Facts) -> Sequence[Edit]:
        """Edits that a skill offers, best site first; [] for knowledge and where it has no site.

        Edits of kernels that the gate refuses, and of sites shaped by a conflicting skill, are left out. One whose
        space holds a value that evidence proves begins with it. A recipe that breaks on a program offers nothing there:
        a plug-in's fault must not end a run. It is logged.
        """
        card, parsed = self.card(skill), self._programs.parsed(program)
        edits = self._offered(card, parsed, facts)
        if card.subject == "program":
            return edits
        situation = assess(facts)
        order = [item.subject for item in self._decisions([card], situation) if item.admitted]
        allowed = [edit for edit in edits if set(_sites(edit)) <= set(order)]
        rows = self._rows(card)
        begun = [(self._proven(edit, situation, rows) or (edit, 0.0))[0] for edit in allowed]
        return sorted(begun, key=lambda edit: min(order.index(site) for site in _sites(edit)))

    def proven(self, program: Json, facts: Facts) -> Sequence[Edit]:
        """Edits of kernels that were not run yet, on the word of evidence, what brings most first.

        A micro skill waits for measured facts. Where none is there yet, verified gains in like contexts stand in for
        them, unless what is known speaks against the skill. Of several edits that set the same, the best is given.
        """
        parsed, situation = self._programs.parsed(program), assess(facts)
        found: list[tuple[Edit, float]] = []
        for card in self._cards.values():
            rows = self._rows(card) if card.kind == "micro" and card.subject == "kernel" else ()
            for edit in self._offered(card, parsed, facts) if rows else ():
                supported = self._proven(edit, situation, rows)
                if supported is not None and not is_ruled_out(card, edit.site, situation):
                    found.append(supported)
        chosen: dict[tuple[str, str], Edit] = {}
        for edit, _ in sorted(found, key=lambda item: -item[1]):
            chosen.setdefault((edit.site, edit.action), edit)
        return list(chosen.values())

    def unlearned(self) -> ExpertLibrary:
        """The same skills by their priors alone: what evidence suspends is offered again. Nothing is remembered."""
        other = copy(self)
        other.store = other._quarantine = None
        return other

    def apply(self, program: Json, edit: Edit) -> Json:
        """The program after an edit, with the skill in its lineage.

        Raises:
            ProgramError: the edit does not fit the program, or changes nothing that is printed.
        """
        card = self.card(edit.skill)
        recipe = self._recipe(card)
        if recipe is None:
            raise ProgramError(f"skill {card.id} is knowledge, it has no recipe to apply")
        before = self._programs.parsed(program)
        try:
            after: Program = recipe.apply(before, edit)
        except KernelSkillError:
            raise
        except Exception as error:  # a recipe is a plug-in: its fault costs one attempt, not the run
            raise ProgramError(
                f"skill {card.id}: {edit.action} at {edit.site} failed in {card.recipe}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if is_unprinted(before, after):
            raise ProgramError(
                f"skill {card.id}: {edit.action} at {edit.site} changes nothing that is printed"
            )
        if len(after.skills) == len(before.skills):
            after = after.with_skill(card.id)
        return self._programs.printed(after)

    def remember(self, attempt: Attempt, facts: Facts, context: Json) -> None:
        """Add the row of one judged attempt; `context` is `{"run": id, "task": id}`. Idempotent.

        Raises:
            StoreError: the store cannot be written.
        """
        if self.store is None:
            return
        row = evidence_of(attempt, facts, self.device, context)
        if row is None:
            return
        self.store.add(row)
        taken = self._quarantine.take(attempt, facts, row, self._cards) if self._quarantine else None
        if taken is not None:
            _log.info("a win that no skill explains was distilled: %s", taken)

    def _offered(self, card: Card, program: Program, facts: Facts) -> list[Edit]:
        """What a recipe proposes, without the sites that a conflicting skill has shaped."""
        recipe = self._recipe(card)
        if recipe is None:
            return []
        try:
            edits = [Edit.model_validate(edit) for edit in recipe.propose(program, facts)]
        except Exception:  # noqa: BLE001 - a recipe is a plug-in: its fault costs its turn, not the run
            _log.exception("skill %s: propose failed in %s", card.id, card.recipe)
            return []
        return [edit for edit in edits if edit.skill == card.id and not self._conflict(card, program, edit)]

    def _proven(
        self, edit: Edit, situation: Situation, rows: Sequence[Evidence]
    ) -> tuple[Edit, float] | None:
        """The edit at a setting that its skill's rows prove there, and the log speedup expected; None without one."""
        context = context_of(situation, edit.site, self.device)
        suspended = estimate(0.0, rows, context).suspended
        return None if suspended else fitting(edit, proven(rows, context))

    def _rows(self, card: Card) -> tuple[Evidence, ...]:
        return self.store.rows(card.id, NEWEST) if self.store else ()

    def _decisions(self, cards: Sequence[Card], situation: Situation) -> tuple[GateDecision, ...]:
        """Decisions on some cards, best first."""
        scored = []
        for card in cards:
            rows = self._rows(card)
            decisions = self._gated(card, situation)
            scored += [self._scored(card, item, decisions, situation, rows) for item in decisions]
        scored.sort(key=lambda item: (-item[0], item[1].skill, item[1].subject))
        return tuple(self._on_probation([decision for _, decision in scored]))

    def _gated(self, card: Card, situation: Situation) -> tuple[GateDecision, ...]:
        """The gate's word on one card, subject by subject."""
        return tuple(decide(card, situation))

    def _on_probation(self, decisions: Sequence[GateDecision]) -> Iterator[GateDecision]:
        """At most one quarantined skill is admitted on a base: others may cost rounds for nothing."""
        admitted = ""
        for item in decisions:
            if item.admitted and self.card(item.skill).status == "quarantined":
                if admitted not in {"", item.skill}:
                    reason = f"quarantined, and {admitted} is tried first: one distilled skill at a time"
                    yield item.model_copy(
                        update={"admitted": False, "reason": reason, "expected_speedup": None}
                    )
                    continue
                admitted = item.skill
            yield item

    def _scored(
        self,
        card: Card,
        decision: GateDecision,
        decisions: Sequence[GateDecision],
        situation: Situation,
        rows: Sequence[Evidence],
    ) -> tuple[float, GateDecision]:
        """Score and decision; refusals sort behind everything. Evidence may still refuse what the gate admits."""
        if not decision.admitted:
            return float("-inf"), decision
        together = (
            [item.subject for item in decisions if item.admitted] if card.subject == "operator" else None
        )
        found = self._estimate(card, decision.subject, situation, rows, together)
        if found.suspended:
            refusal = {"admitted": False, "reason": found.suspended, "measured": True}
            return float("-inf"), decision.model_copy(update=refusal)
        tries = f"{found.verified} verified, {found.rejected} rejected" if rows else "no evidence yet"
        bound = ", all that there is to save" if found.bounded else ""
        reason = f"{decision.reason}; expected {found.expected_speedup:.3g}x ({tries}{bound})"
        update = {"reason": reason, "expected_speedup": found.expected_speedup}
        return found.score, decision.model_copy(update=update)

    def _estimate(
        self,
        card: Card,
        subject: str,
        situation: Situation,
        rows: Sequence[Evidence],
        together: Sequence[str] | None = None,
    ) -> Estimate:
        """Prior by Amdahl's law, then evidence; `together` are subjects that the skill would change at once."""
        shares = [_share(situation, item) for item in together or [subject]]
        known = [share for share in shares if share is not None]
        share = sum(known) if known else None
        prior, most = (of_program(gain(situation.index, subject), share) for gain in (card.prior, card.most))
        return estimate(prior, rows, context_of(situation, subject, self.device), most)

    def _conflict(self, card: Card, program: Program, edit: Edit) -> bool:
        """Whether a skill that excludes this one has shaped the site (or, for a program, anything)."""
        excluded = set(card.conflicts) | {
            other.id for other in self._cards.values() if card.id in other.conflicts
        }
        kernels = {kernel.name: kernel.skills for kernel in program.kernels}
        shaped = [skill for site in _sites(edit) for skill in kernels.get(site, ())]
        if not any(site in kernels for site in _sites(edit)):
            shaped = list(program.skills)
        return bool(excluded & set(shaped))

    def _recipe(self, card: Card) -> ModuleType | None:
        path = card.recipe
        if path is None:
            return None
        if card.id not in self._recipes:
            self._recipes[card.id] = load_recipe(path)
        return self._recipes[card.id]


def load_recipe(path: Path) -> ModuleType:
    """Import a recipe by its path.

    Raises:
        SkillError: it cannot be imported, or has no `propose` or `apply`.
    """
    spec = importlib.util.spec_from_file_location(f"kernelskill_recipe_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anything may go wrong in a plug-in; the message says which and where
        raise SkillError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
    for name in ("propose", "apply"):
        if not callable(getattr(module, name, None)):
            raise SkillError(f"{path}: {name}: must be a function of the recipe")
    return module


def _share(situation: Situation, subject: str) -> float | None:
    """Measured share of a subject in a call, or the one expected before anything was timed; None for the program."""
    for name in ("share_ratio", "expected_share_ratio"):
        fact = situation.index.find(name, subject) if subject else None
        if fact is not None and isinstance(fact.value, int | float):
            return float(fact.value)
    return None


def _sites(edit: Edit) -> list[str]:
    return [site.strip() for site in edit.site.split(",") if site.strip()]
