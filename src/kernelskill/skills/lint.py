"""What is wrong with a stock of skills, beyond what the door refuses: every flaw of every card, not only the first."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from kernelskill.errors import SkillError
from kernelskill.records import Fact, Facts, Record, Scalar
from kernelskill.skills.bottlenecks import BOTTLENECKS
from kernelskill.skills.card import RECIPE, Card, read_card
from kernelskill.skills.expression import Condition, FactIndex, Value
from kernelskill.skills.library import find_cards, load_recipe

SAMPLES = 4000
"""Sets of facts on which a condition that never holds is called unreachable."""
_NUMBERS = (0, 1, 2, 3, 8, 64, 1000, 1_000_000)


class Flaw(Record):
    """One thing wrong with one skill."""

    path: Path
    skill: str
    field: str
    rule: str
    """What is wrong, in words."""

    def __str__(self) -> str:
        return f"{self.path}: {self.field}: {self.rule}"


def lint(
    folders: Sequence[Path],
    *,
    known: Collection[str] | None = None,
    measured: Collection[str] | None = None,
    values: Mapping[str, Sequence[Scalar]] | None = None,
) -> list[Flaw]:
    """All flaws of the skills in some folders, in order of path.

    Args:
        folders: Skill folders, or folders that hold skill folders.
        known: Names of all facts that exist; None skips that check.
        measured: Names of the facts that can be measured; None skips the checks about measuring.
        values: All values that a fact of a closed vocabulary can take.

    Raises:
        SkillError: a folder is missing, or holds no skill.
    """
    flaws: list[Flaw] = []
    cards: list[Card] = []
    for path in find_cards(folders):
        try:
            cards.append(read_card(path))
        except SkillError as error:
            message = str(error).removeprefix(f"{path}: ")
            flaws.append(Flaw(path=path, skill=path.parent.name, field="card", rule=message))
    first: dict[str, Card] = {}
    for card in cards:
        if card.id in first:
            flaws.append(_flaw(card, "id", f"{card.id!r} is already the id of {first[card.id].path}"))
        first.setdefault(card.id, card)
    for card in cards:
        flaws += _references(card, first, known)
        flaws += _recipe(card)
        flaws += _reach(card, values or {})
        if measured is not None and card.kind == "micro":
            flaws += _unmeasured(card, measured, values or {})
    return sorted(flaws, key=lambda flaw: str(flaw.path))


def unread_facts(cards: Sequence[Card], known: Collection[str]) -> tuple[str, ...]:
    """Facts that no card and no bottleneck reads, by name."""
    read = {name for card in cards for name in card.condition.names}
    for signatures in BOTTLENECKS.values():
        for item in signatures:
            read |= set(Condition(f"{item.condition} and {item.weight} > 0", "bottleneck").names)
    return tuple(sorted(set(known) - read))


def _references(card: Card, cards: Mapping[str, Card], known: Collection[str] | None) -> Iterator[Flaw]:
    for other in card.conflicts:
        if other not in cards:
            yield _flaw(card, "conflicts", f"{other!r} is the id of no skill")
    for name in card.condition.names:
        if known is not None and name not in known:
            yield _flaw(card, "applies", f"{name!r} is no fact")


def _recipe(card: Card) -> Iterator[Flaw]:
    if card.recipe is None:
        if card.kind != "knowledge":
            yield _flaw(card, RECIPE, f"a {card.kind} skill must have one")
        return
    if card.kind == "knowledge":
        yield _flaw(card, RECIPE, "knowledge has none; make the skill structural or micro")
    try:
        load_recipe(card.recipe)
    except SkillError as error:
        yield _flaw(card, RECIPE, str(error).removeprefix(f"{card.recipe}: "))


def _reach(card: Card, values: Mapping[str, Sequence[Scalar]]) -> Iterator[Flaw]:
    """A condition that no sampled facts make true is dead; one that none makes false says nothing."""
    alone = _truths(card.condition, values)
    if True not in alone:
        yield _flaw(card, "applies", f"unreachable: no facts make it true: {card.applies}")
        return
    if False not in alone:
        yield _flaw(card, "applies", f"always true: no facts make it false: {card.applies}")
    if True not in _truths(_in_the_gate(card), values):
        yield _flaw(
            card,
            "bottlenecks",
            "unreachable: the condition never holds together with structures and bottlenecks",
        )


def _unmeasured(
    card: Card, measured: Collection[str], values: Mapping[str, Sequence[Scalar]]
) -> Iterator[Flaw]:
    """A micro edit may only be admitted by something measured."""
    if True in _truths(card.condition, values, without=measured):
        yield _flaw(card, "applies", "a micro skill must not be admitted without a measured fact")


def _in_the_gate(card: Card) -> Condition:
    """The card's condition together with what the gate asks beside it."""
    signatures = [item.condition for name in card.bottlenecks for item in BOTTLENECKS[name]]
    text = f"({card.applies}) and ({' or '.join(signatures)})"
    if card.structures and card.subject == "kernel":
        text += f" and kernel_kind in ({', '.join(map(repr, card.structures))},)"
    if card.structures and card.subject == "program":
        text += f" and ({' or '.join(f'count_{name} >= 1' for name in card.structures)})"
    return Condition(text, f"{card.path}: applies, with structures and bottlenecks")


def _truths(
    condition: Condition, values: Mapping[str, Sequence[Scalar]], without: Collection[str] = ()
) -> set[bool]:
    """The truth values that a condition takes over sampled facts; the same ones every time."""
    flags, constants = condition.flags(), condition.constants()
    names = [name for name in condition.names if name not in without]
    choices = {
        name: tuple(values.get(name, ())) or _choices(name, name in flags, constants[name]) for name in names
    }
    found: set[bool] = set()
    draw = random.Random(0)
    for _ in range(SAMPLES):
        facts = Facts(
            facts=tuple(Fact(name=name, value=draw.choice(choices[name]), origin="judged") for name in names)
        )
        try:
            answer = condition.ask(FactIndex(facts)).value
        except SkillError:
            continue  # a value of another sort than the comparison needs: no such fact exists
        if answer is not None:
            found.add(answer)
        if len(found) == 2:
            break
    return found


def _choices(name: str, flag: bool, constants: Sequence[Value]) -> tuple[Scalar, ...]:
    """Values of a fact on both sides of everything that it is compared with."""
    if flag or any(isinstance(item, bool) for item in constants):
        return (True, False)
    texts = [item for item in constants if isinstance(item, str)]
    if texts:
        return (*texts, "something else")
    numbers = [item for item in constants if isinstance(item, int | float)]
    near = [value for item in numbers for value in (item * 0.9, item, item * 1.1 + 0.01)]
    found = [*_NUMBERS, *near]
    if name.endswith(("share_ratio", "efficiency_ratio")):
        found = [value for value in (*found, 0.1, 0.5, 0.9) if value <= 1]
    return tuple(dict.fromkeys(value for value in found if value >= 0))


def _flaw(card: Card, field: str, rule: str) -> Flaw:
    return Flaw(path=card.path, skill=card.id, field=field, rule=rule)
