"""A skill's card: `SKILL.md`, read and checked at the door.

Front matter in YAML between two `---` lines, then a Markdown body with one section per question that an expert answers.
What breaks a rule is refused with file, field, value and rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from kernelskill.errors import SkillError
from kernelskill.records import Record
from kernelskill.skills.bottlenecks import BOTTLENECKS, STRUCTURES, Headroom
from kernelskill.skills.expression import Condition, FactIndex, Quantity

CARD = "SKILL.md"
RECIPE = "recipe.py"
SECTIONS = ("Mechanism", "Steps", "Check that it was really done", "Worked example", "When not to")
"""Headings (`## ...`) that every body has, each with text below it."""

Kind = Literal["structural", "micro", "knowledge"]
SubjectKind = Literal["program", "kernel", "operator"]


class ExpectedGain(Record):
    """What the skill is believed to bring before there is evidence."""

    prior_log_speedup: float = Field(ge=0.0, le=3.0)
    """ln(time before / time after) of the subject where the gate admits it, success assumed."""
    reasoning: str = Field(min_length=40)
    """Why so much: bytes, instructions or calls saved."""
    at_most: str = ""
    """Quantity over facts: what no such edit can exceed, as a factor of the subject; "" = nothing is known."""


class Front(Record):
    """Front matter of a card."""

    name: str
    """The id again, under the name by which coding agents look for it."""
    description: str = Field(min_length=40, max_length=1024)
    """What it does and when to use it."""
    id: str = Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=64)
    title: str = Field(min_length=3, max_length=100)
    kind: Kind
    status: Literal["approved", "quarantined"] = "approved"
    """quarantined: distilled from one win, and not yet proven on other tasks."""
    origin: str = ""
    """Task that a distilled skill comes from."""
    applies: str
    """Gate expression over facts; for subject `kernel` or `operator`, asked for each of them."""
    subject: SubjectKind
    bottlenecks: tuple[str, ...] = Field(min_length=1)
    """What it relieves; at least one must have been found for it to be admitted."""
    structures: tuple[str, ...]
    """Kinds of kernel, or of operators in the graph, that it works on; empty = any."""
    targets: tuple[Literal["cpu", "cuda"], ...] = Field(min_length=1)
    tiers: tuple[Headroom, ...] = Field(min_length=1)
    """Headroom at which it is worth a try; `unknown` = also before anything was measured."""
    expected_gain: ExpectedGain
    hazards: tuple[str, ...] = Field(min_length=1)
    conflicts: tuple[str, ...]
    """Skills that must not have shaped the same site."""
    source: str = Field(min_length=3)
    """Where the idea comes from."""

    @field_validator("bottlenecks")
    @classmethod
    def _known_bottlenecks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known(value, tuple(BOTTLENECKS))

    @field_validator("structures")
    @classmethod
    def _known_structures(cls, value: tuple[str, ...], info: Any) -> tuple[str, ...]:
        return _known(value, STRUCTURES[info.data.get("subject", "program")])

    @model_validator(mode="after")
    def _name_is_id(self) -> Self:
        if self.name != self.id:
            raise ValueError(f"name {self.name!r} must equal id {self.id!r}")
        if self.id in self.conflicts:
            raise ValueError("a skill cannot conflict with itself")
        return self


class Card(Front):
    """A card that passed the door."""

    path: Path
    """The SKILL.md that it was read from."""
    body: str
    """Markdown below the front matter."""

    @cached_property
    def condition(self) -> Condition:
        """The gate expression, ready to be asked."""
        return Condition(self.applies, f"{self.path}: applies")

    @cached_property
    def limit(self) -> Quantity | None:
        """The limit of the gain, ready to be asked."""
        text = self.expected_gain.at_most
        return Quantity(text, f"{self.path}: expected_gain.at_most") if text else None

    def most(self, index: FactIndex, subject: str) -> float:
        """Log speedup of a subject that no such edit can exceed; infinite where nothing bounds it."""
        factor = self.limit.value(index, subject) if self.limit else None
        return math.inf if factor is None else math.log(max(factor, 1.0))

    def prior(self, index: FactIndex, subject: str) -> float:
        """Expected log speedup of a subject before there is evidence: what the card says, within its limit."""
        if self.status == "quarantined":
            return 0.0
        return min(self.expected_gain.prior_log_speedup, self.most(index, subject))

    @property
    def recipe(self) -> Path | None:
        """The recipe beside the card; None for knowledge."""
        path = self.path.with_name(RECIPE)
        return path if path.is_file() else None

    @property
    def executable(self) -> bool:
        """Whether a recipe can carry it out."""
        return self.recipe is not None

    def section(self, heading: str) -> str:
        """Text below one `## heading`, or ""."""
        return sections(self.body).get(heading, "")


def read_card(path: Path) -> Card:
    """Read one SKILL.md.

    Raises:
        SkillError: the card breaks a rule; the message names file, field, value and rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SkillError(f"{path}: cannot be read: {error}") from error
    front, body = _split(path, text)
    try:
        card = Card.model_validate({**front, "path": path, "body": body})
    except ValidationError as error:
        raise SkillError(_explain(path, error)) from error
    folder = card.id.replace("-", "_")
    if path.parent.name != folder:
        raise SkillError(
            f"{path}: id: {card.id!r}: the folder must be named {folder}, it is {path.parent.name}"
        )
    found = sections(body)
    for heading in SECTIONS:
        if not found.get(heading):
            raise SkillError(f"{path}: body: section {heading!r} must exist and have text")
    # Broken expressions are refused here, not in the middle of a run.
    card.condition  # noqa: B018
    card.limit  # noqa: B018
    return card


def sections(body: str) -> dict[str, str]:
    """Heading -> text of the `## ` sections of a body."""
    pieces = re.split(r"^## +(.+?) *$", body, flags=re.MULTILINE)
    return {heading: text.strip() for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def _split(path: Path, text: str) -> tuple[dict[str, Any], str]:
    match = re.match(r"---\r?\n(.*?)\r?\n---\r?\n(.*)\Z", text, flags=re.DOTALL)
    if match is None:
        raise SkillError(f"{path}: must begin with front matter between two lines of ---")
    try:
        front = yaml.load(match[1], Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        raise SkillError(f"{path}: front matter is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(front, dict):
        raise SkillError(f"{path}: front matter must be a mapping of fields, it is {type(front).__name__}")
    own = {"path", "body"} & set(front)
    if own:
        raise SkillError(f"{path}: {own.pop()}: is not a field of the front matter")
    return front, match[2]


def _explain(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "front matter"
    value = "" if first["type"] == "missing" or not first["loc"] else f"{repr(first['input'])[:80]}: "
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{path}: {field}: {value}{first['msg'].removeprefix('Value error, ')}{more}"


def _known(values: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if value not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(known)}")
    return values


class _UniqueKeys(yaml.SafeLoader):
    """Safe YAML in which a repeated key is an error, not the last one that wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)
