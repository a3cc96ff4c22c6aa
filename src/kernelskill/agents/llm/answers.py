"""What each role answers, checked field by field."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from kernelskill.records import Scalar

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class Answer(BaseModel):
    """One JSON object. Unknown fields are refused, so that a misspelled one is not lost in silence."""

    model_config = ConfigDict(extra="forbid")


class ExpectedChange(Answer):
    """A prediction about one fact."""

    fact: Text
    direction: Literal["up", "down", "same"]
    subject: str = ""


class RefutedBottleneck(Answer):
    """A bottleneck that was looked at and excluded."""

    name: Text
    why: Text


class PlanAnswer(Answer):
    """What the planner decides; `stop` instead of a skill where nothing admitted is worth a try."""

    skill: str = ""
    subject: str = ""
    bottleneck: str = ""
    refuted: RefutedBottleneck | None = None
    steps: tuple[Text, ...] = Field(default=(), max_length=12)
    expects: tuple[ExpectedChange, ...] = Field(default=(), max_length=8)
    risk: str = Field(default="", max_length=1000)
    expected_speedup: float | None = Field(default=None, gt=0, lt=1e4)
    stop: str = Field(default="", max_length=1000)


class DiagnosisAnswer(Answer):
    """Why a candidate failed."""

    cause: Text
    evidence: Text
    remedy: Text
    repairable: bool


class JudgedFact(Answer):
    """A fact that only reading the source can tell."""

    name: Text
    value: Scalar
    subject: str = ""


class FactsAnswer(Answer):
    """All facts that were asked for, as far as the source tells them."""

    facts: tuple[JudgedFact, ...] = Field(max_length=200)


class HintTrace(Answer):
    """Where a source follows one of a person's hints."""

    hint: int = Field(ge=1)
    followed: bool
    line: str = Field(default="", max_length=400)
    """A line of the source, word for word."""
    why_not: str = Field(default="", max_length=600)


class HintsAnswer(Answer):
    """One entry for each hint."""

    hints: tuple[HintTrace, ...]
