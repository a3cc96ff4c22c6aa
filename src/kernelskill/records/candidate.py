"""A proposed implementation, and the edit that made it."""

from __future__ import annotations

import hashlib

from kernelskill.records.base import Json, Record, Scalar
from kernelskill.records.model import Intent


class Edit(Record):
    """One application of a skill at one site, as data. Its meaning is skill + site + action + parameters."""

    skill: str
    """Id of the skill that proposed it."""
    site: str
    """Kernel or node name(s) that it changes, comma-separated."""
    action: str
    """What the recipe's `apply` is to do."""
    parameters: dict[str, Scalar] = {}
    space: dict[str, tuple[Scalar, ...]] = {}
    """Other values that the tuner may try, per parameter."""
    summary: str = ""
    """One line for people."""

    @property
    def key(self) -> str:
        """The edit by meaning; the same key on the same base is never tried twice."""
        parameters = ",".join(f"{name}={self.parameters[name]}" for name in sorted(self.parameters))
        return f"{self.skill}@{self.site}:{self.action}({parameters})"

    def changed(self, name: str, value: Scalar) -> Edit:
        """The edit with another value of one parameter, told in its summary."""
        before = self.parameters.get(name)
        if value == before:
            return self
        head, found, tail = self.summary.rpartition(str(before))
        summary = f"{head}{value}{tail}" if found else f"{self.summary} ({name} = {value})".strip()
        return self.model_copy(update={"parameters": {**self.parameters, name: value}, "summary": summary})


class Plan(Record):
    """What the planner decided for one round."""

    base_id: str
    """Candidate to start from; "" for a seed, which starts from the captured reference."""
    edits: tuple[Edit, ...]
    skill: str
    reason: str
    """Why this one now: the facts that admitted it and its rank."""
    evidence_facts: dict[str, Scalar] = {}
    """The measured facts that admitted the skill (name -> value), for the report."""
    expected_speedup: float | None = None
    bottleneck: str = ""
    """The base's strongest bottleneck when the plan was made; "" for a seed."""
    risk: str = ""
    intent: Intent | None = None
    """What a language model means to do; None for a plan of the expert's."""


class Candidate(Record):
    """Source text that defines `ModelNew`, with its lineage."""

    id: str
    """"c000", "c001", ... in order of writing."""
    parent_id: str = ""
    source: str
    entry: str = "ModelNew"
    program: Json = None
    """The expert's program behind the source (`program.Program` as JSON); None when a person or model wrote it."""
    program_hash: str = ""
    """Hash of the program's meaning; equal programs are never evaluated twice."""
    skills: tuple[str, ...] = ()
    """Skills in the lineage, in order of application."""
    author: str = "expert"
    note: str = ""

    @property
    def source_hash(self) -> str:
        """sha256 of the source text; travels through build, run and report."""
        return hashlib.sha256(self.source.encode()).hexdigest()
