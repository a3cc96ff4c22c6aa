"""What all roles of one run share: the task, the machine, the skills, the run's memory, and whom they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.conversation import Conversation
from kernelskill.agents.llm.prompts import Section, assemble, render
from kernelskill.protocols import LanguageModel, Memory
from kernelskill.records import Attempt, Ceilings, Scalar, Task, Workload
from kernelskill.records.model import ModelSettings, Role
from kernelskill.skills import Card

T = TypeVar("T")


class Shelf(Protocol):
    """Where skills are looked up."""

    def card(self, skill: str) -> Card:
        """One card by id."""
        ...


@dataclass(frozen=True)
class Scene:
    """One run, as its roles see it."""

    model: LanguageModel
    settings: ModelSettings
    task: Task
    workload: Workload
    ceilings: Ceilings
    shelf: Shelf
    memory: Memory
    target: str
    machine: Mapping[str, Scalar] = field(default_factory=dict)
    """What the driver and the system say about the device."""
    repairs: int = 2
    """Repairs in a row that the loop allows."""
    forgets: bool = False
    """Show nothing of what was tried in this run, to measure what that is worth."""
    unread: bool = False
    """Show nothing of what earlier runs taught (cards, what pays on a device), to measure what that is worth."""

    @property
    def hints(self) -> tuple[str, ...]:
        """Design hints of a person."""
        return sections.hints_of(self.settings.hints)

    def attempts(self) -> Sequence[Attempt]:
        """Attempts so far, as far as the model may know of them."""
        return () if self.forgets else self.memory.attempts()

    def cards(self, skills: Iterable[str]) -> list[Card]:
        """Cards of some skills, as far as the model may read them."""
        return [] if self.unread else [self.shelf.card(skill) for skill in skills]

    def by_the_gate(self, section: Section) -> tuple[Section, ...]:
        """What the gate found, unless the model goes without what earlier runs taught: then there is none."""
        return () if self.unread else (section,)

    def setting(self) -> tuple[Section, ...]:
        """What every question begins with."""
        return (
            sections.task_section(self.task, self.workload),
            sections.machine_section(self.ceilings, self.machine),
            sections.hints_section(self.hints),
        )

    def ask(
        self,
        role: Role,
        about: str,
        parts: Iterable[Section],
        use: Callable[[str], T],
        **values: Any,
    ) -> T:
        """Ask one role.

        Args:
            role: whose template is used.
            about: place in the run.
            parts: sections of the question.
            use: makes of a reply what is wanted.
            values: variables of the template.

        Raises:
            ModelError: no usable answer, no model, or no budget.
        """
        known = {"target": self.target, "taught": not self.unread, "remembers": not self.forgets}
        instructions = render(role.replace("-", "_"), **known, **values)
        prompt = assemble(instructions, parts, self.settings.prompt_chars)
        return Conversation(self.model, self.settings).ask(role, about, prompt, use)

    def writing(self) -> dict[str, Any]:
        """Variables of the templates that ask for a file."""
        return {"entry": "ModelNew", "hints": self.hints}
