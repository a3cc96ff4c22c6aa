"""A model's change as an edit: skill, site and steps, so that the same idea is not tried twice on a base."""

from __future__ import annotations

import hashlib
import re

from kernelskill.records import Edit

ACTION = "write"
"""What no recipe does: the change is in the text."""


def edit_of(skill: str, subject: str, steps: tuple[str, ...]) -> Edit:
    """The edit of a plan in words; wording is taken without case, spaces and signs."""
    words = re.sub(r"[^a-z0-9]+", " ", " ".join(steps).lower()).strip()
    idea = hashlib.sha256(words.encode()).hexdigest()[:12]
    summary = "; ".join(steps)
    return Edit(
        skill=skill,
        site=subject,
        action=ACTION,
        parameters={"idea": idea},
        summary=summary if len(summary) <= 160 else summary[:157] + "...",
    )
