"""Whether a card's condition can ever decide anything: truth values over sampled facts, the same ones every time.

Facts are drawn on both sides of everything that they are compared with, so a condition that is never true there is
unreachable, and one that is never false says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence

from kernelskill.errors import SkillError
from kernelskill.records import Fact, Facts, Scalar
from kernelskill.skills.bottlenecks import BOTTLENECKS, HIGH_BELOW, LOW_ABOVE
from kernelskill.skills.card import Card
from kernelskill.skills.expression import Condition, FactIndex, Value
from kernelskill.skills.gate import RULES

SAMPLES = 4000
"""Sets of facts on which a condition that never holds is called unreachable."""
FEW_SAMPLES = 800
"""The same for what is not expected to hold, so that every sample is drawn."""
_NUMBERS = (0, 1, 2, 3, 8, 64, 1000, 1_000_000)
_TIERS = {
    "high": f"floor_share_ratio < {HIGH_BELOW}",
    "medium": f"({HIGH_BELOW} <= floor_share_ratio <= {LOW_ABOVE})",
    "low": f"floor_share_ratio > {LOW_ABOVE}",
}
Vocabulary = Mapping[str, Sequence[Scalar]]
Fault = tuple[str, str]
"""Field, and what is wrong with it."""


def unreachable(card: Card, values: Vocabulary) -> Iterator[Fault]:
    """A condition that no facts make true is dead; one that none makes false says nothing."""
    alone = truths(card.condition, values)
    if True not in alone:
        yield "applies", f"unreachable: no facts make it true: {card.applies}"
        return
    if False not in alone:
        yield "applies", f"always true: no facts make it false: {card.applies}"
    found, demands = _in_the_gate(card), list(_demands(card))
    if _can_hold(_condition(card, " and ".join([found, *(text for _, _, text in demands)])), values):
        return
    if not _can_hold(_condition(card, found), values):
        yield "bottlenecks", "unreachable: the condition never holds together with structures and bottlenecks"
        return
    for field, rule, text in demands:
        if not _can_hold(_condition(card, f"{found} and {text}"), values):
            yield field, f"contradiction: the condition never holds together with {rule}"


def unmeasured(card: Card, measured: Collection[str], values: Vocabulary) -> Iterator[Fault]:
    """A micro edit may only be admitted by something measured."""
    if any(_answers(card.condition, values, measured, FEW_SAMPLES)):
        yield "applies", "a micro skill must not be admitted without a measured fact"


def truths(condition: Condition, values: Vocabulary, without: Collection[str] = ()) -> frozenset[bool]:
    """The truth values that a condition takes over sampled facts.

    Args:
        condition: what is asked.
        values: all values of facts of a closed vocabulary.
        without: facts that are never known.
    """
    found: set[bool] = set()
    for answer in _answers(condition, values, without):
        found.add(answer)
        if len(found) == 2:
            break
    return frozenset(found)


def _can_hold(condition: Condition, values: Vocabulary) -> bool:
    return any(_answers(condition, values, ()))


def _answers(
    condition: Condition, values: Vocabulary, without: Collection[str], samples: int = SAMPLES
) -> Iterator[bool]:
    """Known answers of a condition, sample by sample."""
    flags, constants = condition.flags(), condition.constants()
    pools = []
    for name in condition.names:
        if name not in without:
            choices = tuple(values.get(name, ())) or _choices(name, name in flags, constants[name])
            pools.append([Fact(name=name, value=value, origin="judged") for value in choices])
    draw = random.Random(0)
    for _ in range(samples):
        # model_construct: what is drawn is valid already, and validating it again takes most of the time.
        facts = Facts.model_construct(facts=tuple(draw.choice(pool) for pool in pools))
        try:
            answer = condition.ask(FactIndex(facts)).value
        except SkillError:
            continue  # a value of another sort than the comparison needs: no such fact exists
        if answer is not None:
            yield answer


def _in_the_gate(card: Card) -> str:
    """The card's condition together with what the gate asks beside it."""
    signatures = [item.condition for name in card.bottlenecks for item in BOTTLENECKS[name]]
    text = f"({card.applies}) and ({' or '.join(signatures)})"
    if card.structures and card.subject == "kernel":
        text += f" and kernel_kind in ({', '.join(map(repr, card.structures))},)"
    if card.structures and card.subject == "program":
        text += f" and ({' or '.join(f'count_{name} >= 1' for name in card.structures)})"
    return text


def _demands(card: Card) -> Iterator[tuple[str, str, str]]:
    """Field, name and condition of what else must hold before the card is admitted."""
    listed = ", ".join(map(repr, card.targets))
    yield "targets", f"targets {', '.join(card.targets)}", f"target in ({listed},)"
    tiers = [_TIERS[tier] for tier in card.tiers if tier in _TIERS]
    if tiers and "unknown" not in card.tiers:
        yield "tiers", f"headroom {', '.join(card.tiers)}", f"({' or '.join(tiers)})"
    for rule in RULES:
        if rule.concerns(card):
            text = rule.condition if rule.required else f"not ({rule.condition})"
            yield "applies", f"a rule of the gate ({rule.why})", f"({text})"


def _condition(card: Card, text: str) -> Condition:
    return Condition(text, f"{card.path}: applies, as the gate asks it")


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
