"""The library without parts of itself, to measure what they are worth."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from kernelskill.records import GateDecision
from kernelskill.skills.card import Card
from kernelskill.skills.evidence import EvidenceStore
from kernelskill.skills.experience import Evidence
from kernelskill.skills.gate import STOP, Situation
from kernelskill.skills.library import ExpertLibrary


class UngatedLibrary(ExpertLibrary):
    """Skills may change anything that they fit: no fact admits or refuses. Priors and evidence still rank.

    A recipe finds out by itself that a program has no place for it. Knowledge is carried out by whoever reads its name,
    so that of another device is not offered, and neither is the word that nothing is left to do, which is no change.
    """

    def _gated(self, card: Card, situation: Situation) -> tuple[GateDecision, ...]:
        decisions = super()._gated(card, situation)
        if card.recipe is None and (card.id == STOP or _is_of_another_device(card, situation)):
            return decisions
        return tuple(
            item.model_copy(update={"admitted": True, "reason": "there is no gate", "facts": {}})
            for item in decisions
        )


class UnguidedLibrary(UngatedLibrary):
    """Nothing but the recipes: no gate, no priors, no evidence; their order is drawn, the same in every run.

    Args:
        store: not read; without one nothing is learnt either way.
    """

    def __init__(self, store: EvidenceStore | None, extra: Sequence[Path] = (), device: str = "") -> None:
        del store
        super().__init__(None, extra, device)

    def _scored(
        self,
        card: Card,
        decision: GateDecision,
        decisions: Sequence[GateDecision],
        situation: Situation,
        rows: Sequence[Evidence],
    ) -> tuple[float, GateDecision]:
        del decisions, situation, rows
        if not decision.admitted:
            return float("-inf"), decision
        return random.Random(f"{card.id}/{decision.subject}").random(), decision


def _is_of_another_device(card: Card, situation: Situation) -> bool:
    target = situation.index.find("target", "")
    return target is not None and target.value not in card.targets


def library_without(parts: Sequence[str]) -> type[ExpertLibrary]:
    """The library for a run that goes without some parts of the memory ("long-term", "gate", ...)."""
    if "long-term" in parts:
        return UnguidedLibrary
    return UngatedLibrary if "gate" in parts else ExpertLibrary
