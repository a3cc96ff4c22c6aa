"""The gate: facts -> headroom, ranked bottlenecks, and for every skill and subject whether it may be tried, and why.

Deterministic, and free of opinion: what is missing is unknown, and unknown never admits. The rules of the gate come
first, then target, headroom and structure, the card's condition, and whether a bottleneck that it relieves was found;
the first that fails is the reason for a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernelskill.errors import SkillError
from kernelskill.records import Fact, Facts, GateDecision
from kernelskill.records.operators import family
from kernelskill.skills.bottlenecks import AT_FLOOR, Bottleneck, Headroom, find_bottlenecks, headroom
from kernelskill.skills.card import Card
from kernelskill.skills.expression import Answer, Condition, FactIndex

STOP = "stop-at-floor"
COMPILE = "library-compile"
COALESCE = "coalesce-access"
WHOLE = 90
"""Percent of the bytes in the touched sectors from which no other order of lanes saves traffic: at most 1.11x."""
SMALL_SHARE = 0.05
"""A micro edit of a kernel below this share of a call cannot gain more than 5 %, within noise of nothing."""


@dataclass(frozen=True)
class Rule:
    """A refusal that holds whatever a card says."""

    condition: str
    concerns: Callable[[Card], bool]
    why: str
    required: bool = False
    """True: refused unless the condition holds. False: refused if it holds."""


RULES = (
    Rule(
        f"floor_share_ratio >= {AT_FLOOR}",
        lambda card: card.id != STOP,
        "the floor is reached, nothing is left to gain",
    ),
    Rule(
        "wrapper == 'compile'", lambda card: card.id == COMPILE, "the base is already the compiled reference"
    ),
    Rule(
        "wrapper == 'compile'",
        lambda card: card.kind != "knowledge" and card.id != COMPILE,
        "the base runs the compiled reference, so an edit of the program would not be executed",
    ),
    Rule(
        f"load_use_pct >= {WHOLE} and store_use_pct >= {WHOLE}",
        lambda card: card.id == COALESCE,
        "counters say that all of each sector is used, for loads and for stores",
    ),
    Rule(
        f"share_ratio >= {SMALL_SHARE}",
        lambda card: card.kind == "micro" and card.subject != "program",
        "a micro edit needs a measured share of the call worth improving",
        required=True,
    ),
)


@dataclass(frozen=True)
class Situation:
    """What the gate sees of one base."""

    index: FactIndex
    kernels: tuple[str, ...]
    operators: tuple[str, ...]
    headroom: Headroom
    bottlenecks: tuple[Bottleneck, ...]

    def subjects(self, kind: str) -> tuple[str, ...]:
        """Subjects that a card of that subject kind is asked about."""
        return {"program": ("",), "kernel": self.kernels, "operator": self.operators}[kind]

    def relieved(self, card: Card, subject: str) -> tuple[str, ...]:
        """Bottlenecks of the card that were found there or on the whole program, heaviest first.

        For a card about the program, those of any kernel count.
        """
        return tuple(
            item.name
            for item in self.bottlenecks
            if item.name in card.bottlenecks
            and (card.subject == "program" or subject in item.subjects or "" in item.subjects)
        )


@dataclass(frozen=True)
class _Check:
    """Outcome of one check."""

    passed: bool
    reason: str
    facts: tuple[Fact, ...] = ()


def assess(facts: Facts) -> Situation:
    """Headroom and bottlenecks of one base."""
    index = FactIndex(facts)
    subjects = facts.subjects()
    kernels = tuple(name for name in subjects if index.has("kernel_kind", name))
    operators = tuple(name for name in subjects if index.has("op", name) and name not in kernels)
    return Situation(index, kernels, operators, headroom(index), find_bottlenecks(index, kernels, operators))


def decide(card: Card, situation: Situation) -> tuple[GateDecision, ...]:
    """One decision per subject of the card's kind; a refusal for the program where there is no such subject."""
    subjects = situation.subjects(card.subject)
    if not subjects:
        return (
            _decision(card, "", _Check(False, f"the program has no {card.subject} with facts of its own")),
        )
    return tuple(_decide_for(card, subject, situation) for subject in subjects)


def is_ruled_out(card: Card, subject: str, situation: Situation) -> bool:
    """Whether what is known speaks against a card; what is missing does not, other than in `decide`."""
    conditions = [card.condition, _listed("target", card.targets)]
    conditions += [_listed("kernel_kind", card.structures)] if card.structures else []
    try:
        return any(item.ask(situation.index, subject).value is False for item in conditions)
    except SkillError:  # a card that mistakes text for a number; lint finds it
        return True


def _decide_for(card: Card, subject: str, situation: Situation) -> GateDecision:
    for check in _checks(card, subject, situation):
        if not check.passed:
            return _decision(card, subject, check)
    try:
        answer = card.condition.ask(situation.index, subject)
    except SkillError as error:  # one card that mistakes text for a number must not end a run; lint finds it
        return _decision(card, subject, _Check(False, f"the condition cannot be asked: {error}"))
    reason, relieved = answer.reason, situation.relieved(card, subject)
    if answer.value:
        found = (
            ", ".join(relieved) or f"nothing that was found (its bottlenecks: {', '.join(card.bottlenecks)})"
        )
        reason = f"{reason}; relieves {found}"
    return _decision(card, subject, _Check(bool(answer.value and relieved), reason, answer.facts))


def _checks(card: Card, subject: str, situation: Situation) -> Iterator[_Check]:
    index = situation.index
    for rule in RULES:
        if rule.concerns(card):
            answer = _asked(rule.condition, "rule of the gate").ask(index, subject)
            refused = answer.value is not True if rule.required else answer.value is True
            yield _Check(not refused, f"{rule.why}: {answer.reason}", answer.facts)
    yield _from(_listed("target", card.targets).ask(index, subject))
    share = index.find("floor_share_ratio", "")
    yield _Check(
        situation.headroom in card.tiers,
        f"headroom is {situation.headroom}; worth a try at {', '.join(card.tiers)}",
        () if share is None else (share,),
    )
    if card.structures:
        yield _structure(card, subject, index)


def _structure(card: Card, subject: str, index: FactIndex) -> _Check:
    """Whether the subject is of a kind that the card works on."""
    if card.subject == "kernel":
        return _from(_listed("kernel_kind", card.structures).ask(index, subject))
    if card.subject == "program":
        text = " or ".join(f"count_{name} >= 1" for name in card.structures)
        return _from(_asked(text, "structures").ask(index, subject))
    op = index.find("op", subject)
    kind = family(str(op.value)) if op else "unknown"
    return _Check(
        kind in card.structures,
        f"{subject} is {kind}, not {' or '.join(card.structures)}",
        (op,) if op else (),
    )


def _from(answer: Answer) -> _Check:
    return _Check(answer.value is True, answer.reason, answer.facts)


def _listed(name: str, values: Sequence[str]) -> Condition:
    listed = ", ".join(repr(value) for value in values)
    return _asked(f"{name} in ({listed},)", f"{name} of a card")


@lru_cache(maxsize=1024)
def _asked(text: str, where: str) -> Condition:
    return Condition(text, where)


def _decision(card: Card, subject: str, check: _Check) -> GateDecision:
    return GateDecision(
        skill=card.id,
        subject=subject,
        admitted=check.passed,
        reason=check.reason,
        facts={fact.name: fact.value for fact in check.facts},
        measured=any(fact.origin == "measured" for fact in check.facts),
    )
