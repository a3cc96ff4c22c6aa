"""Long-term memory: skill cards, the gate over facts, ranking by evidence, and recipes."""

from kernelskill.skills.ablated import library_without
from kernelskill.skills.card import Card, read_card
from kernelskill.skills.evidence import EvidenceStore
from kernelskill.skills.experience import Context, Evidence
from kernelskill.skills.explain import explain
from kernelskill.skills.library import ExpertLibrary, find_cards, read_cards
from kernelskill.skills.lint import Flaw, lint
from kernelskill.skills.ranking import Estimate

__all__ = [
    "Card", "Context", "Estimate", "Evidence", "EvidenceStore", "ExpertLibrary", "Flaw", "explain", "find_cards",
    "library_without", "lint", "read_card", "read_cards",
]  # fmt: skip
