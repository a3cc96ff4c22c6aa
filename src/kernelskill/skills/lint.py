"""What is wrong with a stock of skills, beyond what the door refuses: every flaw of every card, not only the first.

Cards that the door refuses (a field that is missing or wrong), ids given twice, ids and facts that do not exist, links
to files that do not, recipes that cannot be loaded, conditions that can never hold or always do, contradictions between
a condition and what else the gate asks, worked examples that fail, text of the template that was left standing, and
facts that nothing reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from kernelskill.errors import SkillError
from kernelskill.records import Record
from kernelskill.skills.bottlenecks import BOTTLENECKS
from kernelskill.skills.card import RECIPE, Card, read_card
from kernelskill.skills.example import blocks, run_examples
from kernelskill.skills.expression import Condition
from kernelskill.skills.gate import RULES
from kernelskill.skills.library import find_cards, load_recipe
from kernelskill.skills.reach import Fault, Vocabulary, unmeasured, unreachable

_SEE = re.compile(r"\bsee ([a-z0-9]+(?:-[a-z0-9]+)+)")
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
_LEFT_OVER = re.compile(r"<[a-z][^<>\n]* [^<>\n]*>")
"""What `skills new` writes where a person must: <what changes, and why that is faster>."""


class Flaw(Record):
    """One thing wrong with one skill, or with the stock."""

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
    values: Vocabulary | None = None,
    examples: bool = False,
) -> list[Flaw]:
    """All flaws of the skills in some folders, in order of path.

    Args:
        folders: Skill folders, or folders that hold skill folders.
        known: Names of all facts that exist; None skips that check.
        measured: Names of the facts that can be measured; None skips the checks about measuring.
        values: All values that a fact of a closed vocabulary can take.
        examples: Whether worked examples are run, and asked of every skill with a recipe.

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
        faults = [*_references(card, first, known), *_text(card), *unreachable(card, values or {})]
        if measured is not None and card.kind == "micro":
            faults += unmeasured(card, measured, values or {})
        faults += _recipe(card, examples)
        flaws += [_flaw(card, field, rule) for field, rule in faults]
    return sorted(flaws, key=lambda flaw: str(flaw.path))


def unread_facts(
    cards: Sequence[Card], known: Collection[str], told: Collection[str] = ()
) -> tuple[str, ...]:
    """Facts that no card, bottleneck, rule or recipe reads and that nobody is told, by name.

    Args:
        cards: the stock.
        known: names of all facts.
        told: names of those that are for people and models to read.
    """
    read = {name for card in cards for _, name in _read(card)} | set(told)
    signatures = [item for items in BOTTLENECKS.values() for item in items]
    texts = [f"{item.condition} and {item.weight} > 0" for item in signatures]
    texts += [rule.condition for rule in RULES]
    for text in texts:
        read |= set(Condition(text, "bottleneck or rule").names)
    for card in cards:
        if card.recipe is not None:
            read |= set(re.findall(r"\"([a-z][a-z_0-9]*)\"", card.recipe.read_text(encoding="utf-8")))
    return tuple(sorted(set(known) - read))


def dead_facts(
    folder: Path, cards: Sequence[Card], known: Collection[str], told: Collection[str]
) -> list[Flaw]:
    """A flaw of the stock for each fact that is read off programs for nobody."""
    return [
        Flaw(path=folder, skill="", field="facts", rule=f"{name!r} is a fact that nothing reads")
        for name in unread_facts(cards, known, told)
    ]


def _read(card: Card) -> Iterator[Fault]:
    """Field and name of each fact that a card reads."""
    yield from (("applies", name) for name in card.condition.names)
    if card.limit is not None:
        yield from (("expected_gain.at_most", name) for name in card.limit.names)


def _references(card: Card, cards: Mapping[str, Card], known: Collection[str] | None) -> Iterator[Fault]:
    for other in card.conflicts:
        if other not in cards:
            yield "conflicts", f"{other!r} is the id of no skill"
    for field, name in _read(card):
        if known is not None and name not in known:
            yield field, f"{name!r} is no fact"
    yield from _unknown(_SEE.findall(card.body), cards, "{!r} is referred to, but is the id of no skill")
    for target in _LINK.findall(card.body):
        if not (card.path.parent / target).exists():
            yield "body", f"the link to {target} leads nowhere"


def _unknown(names: Iterable[str], cards: Mapping[str, Card], words: str) -> Iterator[Fault]:
    for name in dict.fromkeys(names):
        if name not in cards:
            yield "body", words.format(name)


def _text(card: Card) -> Iterator[Fault]:
    texts = {"description": card.description, "title": card.title, "source": card.source, "body": card.body,
             "hazards": " ".join(card.hazards), "expected_gain": card.expected_gain.reasoning}  # fmt: skip
    for field, text in texts.items():
        if left := _LEFT_OVER.search(text):
            yield field, f"text of the template is still there: {left[0]}"


def _recipe(card: Card, examples: bool) -> Iterator[Fault]:
    module: ModuleType | None = None
    if card.recipe is None:
        if card.kind != "knowledge":
            yield RECIPE, f"a {card.kind} skill must have one"
            return
    else:
        if card.kind == "knowledge":
            yield RECIPE, "knowledge has none; make the skill structural or micro"
        try:
            module = load_recipe(card.recipe)
        except SkillError as error:
            yield RECIPE, str(error).removeprefix(f"{card.recipe}: ")
            return
    if not examples:
        return
    if module is not None and not blocks(card):
        yield "Worked example", "a skill with a recipe must have an example that runs (a ```python block)"
    try:
        run_examples(card, module)
    except SkillError as error:
        yield "Worked example", f"fails: {error}"


def _flaw(card: Card, field: str, rule: str) -> Flaw:
    return Flaw(path=card.path, skill=card.id, field=field, rule=rule)
