"""Prompts: instructions from template files, then sections by rank; what does not fit is left out and named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kernelskill.errors import ModelError

SHORTEST_PART = 600
"""Characters of a section that are still worth showing."""
LEFT_OUT = "\n[... cut here for length]"


@dataclass(frozen=True)
class Section:
    """One part of a question."""

    title: str
    text: str
    rank: int = 0
    """0 is never left out; of the others the highest goes first."""


def render(template: str, **values: Any) -> str:
    """A template file with its variables; one that is missing is an error, not a blank."""
    text: str = _environment().get_template(f"{template}.j2").render(**values)
    return text.strip("\n")


def assemble(instructions: str, sections: Iterable[Section], limit: int) -> tuple[str, str]:
    """Instructions and question of at most `limit` characters together; empty sections are left out.

    Raises:
        ModelError: what must be in it is longer than that.
    """
    kept = [section for section in sections if section.text.strip()]
    dropped: list[str] = []
    for section in sorted((item for item in kept if item.rank), key=lambda item: -item.rank):
        over = len(instructions) + len(_joined(kept, dropped)) - limit
        if over <= 0:
            break
        place = kept.index(section)
        room = len(section.text) - over - len(LEFT_OUT) - len(section.title) - 40
        if room >= SHORTEST_PART:
            kept[place] = Section(section.title, _head(section.text, room) + LEFT_OUT, section.rank)
        else:
            del kept[place]
            dropped.append(section.title)
    question = _joined(kept, dropped)
    if len(instructions) + len(question) > limit:
        raise ModelError(
            f"a prompt of {len(instructions) + len(question)} characters is needed and {limit} are allowed: "
            "raise prompt_chars, or make the task's file shorter"
        )
    return instructions, question


def _head(text: str, room: int) -> str:
    """Whole lines from the beginning."""
    return text[:room].rpartition("\n")[0]


def _joined(sections: Iterable[Section], dropped: Iterable[str]) -> str:
    parts = [f"# {section.title}\n{section.text.strip()}" for section in sections]
    names = ", ".join(dropped)
    return "\n\n".join([*parts, *([f"Left out for length: {names}."] if names else [])])


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("kernelskill.agents.llm", "prompts"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
