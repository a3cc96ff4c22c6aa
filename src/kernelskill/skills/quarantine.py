"""Skills distilled from wins that no skill explains: written down, tried with care, and approved only by other tasks.

A verified win whose plan names no skill of the library (a model's own idea, say) becomes a card of knowledge in the
user's folder, with the candidate beside it. While it is quarantined it has no prior of its own, and the gate admits
at most one such skill on a base. It is approved when attempts with it have beaten the very bases without it on enough
other tasks; both were timed in the same paired rounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from kernelskill.records import Attempt, Facts, Status
from kernelskill.skills.card import CARD, Card, read_card
from kernelskill.skills.evidence import EvidenceStore
from kernelskill.skills.experience import CLASSES, Evidence
from kernelskill.skills.gate import Situation, assess

OTHER_TASKS = 2
"""Tasks beside the one it comes from on which it must have won."""
CANDIDATE = "candidate.py"
_TRUST = 0.5
"""Share of the one observed gain that the card states: a single win is more luck than rule."""
_TEMPLATE = """---
name: {id}
description: >-
  Distilled from a verified win that no skill explains; {summary} Use where the facts of its gate hold.
id: {id}
title: {title}
kind: knowledge
status: quarantined
origin: {origin}
applies: {applies}
subject: {subject}
bottlenecks: [{bottlenecks}]
structures: []
targets: [{target}]
tiers: [high, medium, low, unknown]
expected_gain:
  prior_log_speedup: {prior:.3f}
  reasoning: One verified attempt was {speedup:.3f}x [{low:.3f}, {high:.3f}] over its base; half of that in logarithms.
hazards:
  - It was seen once; what made it fast may be something else than what is written here.
conflicts: []
source: Attempt {index} of run {run}.
---
## Mechanism
{reason}

## Steps
{steps}

## Check that it was really done
- Compare with the [candidate]({candidate}) that won.

## Worked example
On {origin} the candidate was {speedup:.3f}x [{low:.3f}, {high:.3f}] over its base,
verified on the outputs that were timed.

## When not to
Where the gate's facts do not hold. Nothing more is known yet.
"""


class Quarantine:
    """Distilled skills in one folder.

    Args:
        folder: made when the first skill is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def folders(self) -> tuple[Path, ...]:
        """The folder, if it holds a skill."""
        return (self.folder,) if any(self.folder.glob(f"*/{CARD}")) else ()

    def take(self, attempt: Attempt, facts: Facts, row: Evidence, known: Collection[str]) -> Path | None:
        """Write the card of a win that no known skill explains; None for any other attempt, and for one taken before.

        Args:
            attempt: that was judged.
            facts: of its base.
            row: the evidence that it gave.
            known: ids of all skills.
        """
        if not _is_unexplained_win(attempt, row, known):
            return None
        skill = f"distilled-{attempt.candidate.source_hash[:10]}"
        home = self.folder / skill.replace("-", "_")
        if home.exists():
            return None
        text = _card(skill, attempt, row, assess(facts))
        home.mkdir(parents=True)
        (home / CANDIDATE).write_text(attempt.candidate.source, encoding="utf-8")
        (home / CARD).write_text(text, encoding="utf-8")
        return home / CARD

    def promote(self, store: EvidenceStore) -> tuple[str, ...]:
        """Approve what has proved itself on other tasks; returns the ids.

        Raises:
            SkillError: a card of the folder breaks a rule.
            StoreError: the evidence cannot be read.
        """
        approved = []
        for path in sorted(self.folder.glob(f"*/{CARD}")):
            card = read_card(path)
            if card.status == "quarantined" and proven(store.rows(card.id), card):
                text = path.read_text(encoding="utf-8")
                draft = path.with_suffix(".new")
                draft.write_text(
                    text.replace("\nstatus: quarantined\n", "\nstatus: approved\n", 1), encoding="utf-8"
                )
                draft.replace(path)
                approved.append(card.id)
        return tuple(approved)


def proven(rows: Sequence[Evidence], card: Card) -> bool:
    """Whether attempts with a skill beat their bases without it on enough other tasks, and lost on fewer."""
    elsewhere = [row for row in rows if row.verified and row.speedup and row.task != card.origin]
    won = {row.task for row in elsewhere if row.speedup and row.speedup.low > 1}
    lost = {row.task for row in elsewhere if row.speedup and row.speedup.high < 1}
    return len(won) >= OTHER_TASKS and len(won) > 2 * len(lost)


def _is_unexplained_win(attempt: Attempt, row: Evidence, known: Collection[str]) -> bool:
    passed = attempt.evaluation is not None and attempt.evaluation.status is Status.PASSED
    return bool(
        passed
        and attempt.round > 0
        and attempt.plan.skill not in known
        and row.speedup is not None
        and row.speedup.low > 1
        and attempt.candidate.source
    )


def _card(skill: str, attempt: Attempt, row: Evidence, situation: Situation) -> str:
    speedup = row.speedup
    assert speedup is not None
    plan = attempt.plan
    steps = [_plain(edit.summary or edit.action) for edit in plan.edits] or ["Do what the candidate does."]
    summary = _plain(plan.edits[0].summary if plan.edits else plan.reason)[:160].rstrip(".")
    found = [
        item.name for item in situation.bottlenecks if row.subject in item.subjects or "" in item.subjects
    ]
    target = situation.index.find("target", "")
    return _TEMPLATE.format(
        id=skill,
        title=f"Distilled {summary[:60]}".strip(),
        summary=f"{summary}.",
        origin=row.task or "unknown",
        applies=_applies(row, situation),
        subject="kernel" if row.subject in situation.kernels else "program",
        bottlenecks=", ".join(found or ["library-operators"]),
        target=target.value if target else "cpu, cuda",
        prior=min(3.0, _TRUST * math.log(speedup.value)),
        speedup=speedup.value,
        low=speedup.low,
        high=speedup.high,
        index=attempt.index,
        run=row.run,
        reason=_plain(plan.reason) or "No reason was given.",
        steps="\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        candidate=CANDIDATE,
    )


def _applies(row: Evidence, situation: Situation) -> str:
    """The facts that the win was made under, without its sizes."""
    context = row.context
    parts = []
    if row.subject in situation.kernels:
        parts = [f"kernel_kind == '{context.kernel_kind}'"] if context.kernel_kind else []
        parts += [f"kernel_bound == '{context.bound}'"] if context.bound else []
    else:
        parts = [f"count_{context.op_class} >= 1"] if context.op_class in CLASSES else []
        parts += [f"floor_bound == '{context.bound}'"] if context.bound else []
    return " and ".join(parts) or "operators_left >= 1"


def _plain(text: str) -> str:
    """One line that YAML and Markdown take as it is."""
    return " ".join(re.sub(r"[^\w\s.,()/+*=<>-]", " ", text).split())
