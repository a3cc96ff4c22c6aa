"""Everything that can be asked of a stock of skills at once: its flaws, and what it covers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelskill.errors import SkillError
from kernelskill.features.catalog import CATALOG, TOLD, measured, vocabularies
from kernelskill.records import Record
from kernelskill.skills.card import read_card
from kernelskill.skills.coverage import Coverage, coverage
from kernelskill.skills.library import find_cards
from kernelskill.skills.lint import Flaw, dead_facts, lint
from kernelskill.skills.sources import BUNDLED


class Examination(Record):
    """What was found in a stock."""

    skills: int
    executable: int
    flaws: tuple[Flaw, ...]
    coverage: Coverage | None
    """None where a card did not pass the door."""

    def __str__(self) -> str:
        """A line per flaw, then what the stock covers."""
        lines = [str(flaw) for flaw in self.flaws]
        lines.append(f"{self.skills} skills, {self.executable} executable: {len(self.flaws)} flaws")
        if self.coverage is not None:
            found = self.coverage
            lines.append(
                f"over {found.bases} sampled bases: {found.without_ratio:.1%} admit no skill, "
                f"half admit {found.median_admitted:.0f} or more"
            )
            if found.never:
                lines.append(f"never admitted there: {', '.join(found.never)}")
            rare = [
                f"{skill} {share:.1%}" for skill, share in found.admitted_ratio.items() if 0 < share < 0.02
            ]
            if rare:
                lines.append(f"seldom: {', '.join(rare)}")
        return "\n".join(lines)


def examine(folders: Sequence[Path]) -> Examination:
    """Lint with all that the catalog of facts knows, run the examples, and ask the gate about sampled bases.

    Facts that nothing reads are looked for only where the bundled stock is among the folders.

    Raises:
        SkillError: a folder is missing, or holds no skill.
    """
    flaws = lint(folders, known=CATALOG, measured=measured(), values=vocabularies(), examples=True)
    paths = find_cards(folders)
    cards = []
    for path in paths:
        try:
            cards.append(read_card(path))
        except SkillError:
            continue  # lint has told it
    if BUNDLED in folders:
        flaws += dead_facts(BUNDLED, cards, CATALOG, TOLD)
    return Examination(
        skills=len(paths),
        executable=sum(card.executable for card in cards),
        flaws=tuple(flaws),
        coverage=coverage(cards) if len(cards) == len(paths) else None,
    )
