"""Facts as lines of a prompt: subjects that are alike are told once, and what says nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelskill.records import Fact, Facts, Json

ORIGINS = ("measured", "parsed", "judged")
"""Measured ones first, as they weigh most."""
SILENT = ("count_", "schedule_", "gpu_", "wrapper")
"""Facts whose zero only says that something is absent, or left to a default."""


def fact_lines(facts: Facts) -> Iterator[str]:
    """One line for each subject (or group of subjects alike) and origin; of a group's measurements, the range."""
    told = [fact for fact in facts.facts if fact.value is not None and not _says_nothing(fact)]
    for group in _alike(facts.subjects(), told):
        for origin in ORIGINS:
            words = _words([fact for fact in told if fact.subject in group and fact.origin == origin])
            if words:
                yield f"{_title(group)}, {origin}: {', '.join(words)}"


def _says_nothing(fact: Fact) -> bool:
    return fact.name.startswith(SILENT) and fact.value in (0, "", False)


def _alike(subjects: Sequence[str], told: Sequence[Fact]) -> Iterator[tuple[str, ...]]:
    """The whole program, then subjects in order, those together of which all is equal but what was measured."""
    yield ("",)
    groups: dict[tuple[tuple[str, Json], ...], list[str]] = {}
    for subject in subjects:
        mine = [fact for fact in told if fact.subject == subject]
        key = tuple((fact.name, "" if fact.origin == "measured" else fact.value) for fact in mine)
        groups.setdefault(key, []).append(subject)
    yield from (tuple(group) for group in groups.values())


def _title(group: tuple[str, ...]) -> str:
    if len(group) <= 2:
        return " and ".join(group) or "whole program"
    return f"{group[0]} ... {group[-1]} ({len(group)} alike)"


def _words(facts: Sequence[Fact]) -> list[str]:
    """`name=value unit` for each name, `low to high` where a group has several values."""
    values: dict[str, list[Json]] = {}
    units = {fact.name: f" {fact.unit}" if fact.unit else "" for fact in facts}
    for fact in facts:
        values.setdefault(fact.name, []).append(fact.value)
    return [f"{name}={_span(found)}{units[name]}" for name, found in values.items()]


def _span(values: Sequence[Json]) -> str:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values) and min(numbers) != max(numbers):
        return f"{_shown(min(numbers))} to {_shown(max(numbers))}"
    return _shown(values[0])


def _shown(value: Json) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
