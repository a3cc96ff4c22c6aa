"""How much of what can happen the stock has an answer to: the gate asked about sampled bases.

Half of the bases are known by their graph alone, half are programs of kernels that were measured. Values are drawn
from the catalog: choices evenly, shares evenly between 0 and 1, counts and sizes evenly over their logarithm. Such
bases are more varied than real ones: the shares say which cards are never asked for, not how often one is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernelskill.features.catalog import CATALOG
from kernelskill.features.entry import FactEntry
from kernelskill.records import Fact, Facts, Record, Scalar
from kernelskill.skills.card import Card
from kernelskill.skills.gate import assess, decide

BASES = 200
"""Sampled by default: shares are then known within 7 percentage points (95 %)."""
OPERATORS = (
    "aten.mm.default", "aten.convolution.default", "aten.add.Tensor", "aten.sum.dim_IntList", "aten._softmax.default",
    "aten.native_layer_norm.default", "aten.cumsum.default", "aten.max_pool2d_with_indices.default",
    "aten.sort.default", "aten.scaled_dot_product_attention.default", "aten.lstm.input",
)  # fmt: skip
"""One of each family that cards name."""
MOST_KERNELS = 3
WRAPPED = 0.2
"""Share of bases under a wrapper, where nearly everything is refused."""
LARGEST = 1e6


class Coverage(Record):
    """What the gate said about sampled bases."""

    bases: int
    without_ratio: float
    """Share of the bases for which no skill is admitted."""
    median_admitted: float
    admitted_ratio: dict[str, float]
    """Skill -> share of the bases on which it is admitted, most often first."""

    @property
    def never(self) -> tuple[str, ...]:
        """Skills that no sampled base admits."""
        return tuple(skill for skill, share in self.admitted_ratio.items() if share == 0)


def coverage(cards: Sequence[Card], bases: int = BASES, seed: int = 0) -> Coverage:
    """Ask the gate about sampled bases; equal arguments give equal answers."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    admitted = []
    for _ in range(bases):
        situation = assess(sampled_facts(draw))
        found = [card.id for card in cards if any(item.admitted for item in decide(card, situation))]
        counts.update(found)
        admitted.append(len(found))
    shares = {card.id: counts[card.id] / bases for card in cards}
    return Coverage(
        bases=bases,
        without_ratio=admitted.count(0) / bases,
        median_admitted=float(sorted(admitted)[bases // 2]),
        admitted_ratio=dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))),
    )


def sampled_facts(draw: random.Random) -> Facts:
    """Facts of one base that the catalog allows."""
    measured = draw.random() < 0.5
    found = list(_facts_of("program", "", draw, measured, {"kernels": 0} if not measured else {}))
    for index in range(draw.randint(1, MOST_KERNELS) if measured else 0):
        found += _facts_of("kernel", f"kernel_{index}", draw, measured, {})
    for index in range(draw.randint(0, MOST_KERNELS)):
        found += _facts_of("operator", f"operator_{index}", draw, measured, {"op": draw.choice(OPERATORS)})
    return Facts(facts=tuple(found))


def _facts_of(
    subject: str, name: str, draw: random.Random, measured: bool, fixed: Mapping[str, Scalar]
) -> Iterator[Fact]:
    for entry in CATALOG.values():
        if subject in entry.subjects and (measured or entry.origin != "measured"):
            value = fixed.get(entry.name, _value(entry, draw))
            yield Fact(name=entry.name, value=value, origin=entry.origin, unit=entry.unit, subject=name)


def _value(entry: FactEntry, draw: random.Random) -> Scalar:
    if entry.name == "wrapper":
        return draw.choice(entry.choices) if draw.random() < WRAPPED else ""
    if entry.choices:
        return draw.choice(entry.choices)
    if entry.kind == "bool":
        return draw.random() < 0.5
    if entry.kind == "text":
        return ""
    if entry.name.endswith("share_ratio") or entry.name.endswith("efficiency_ratio"):
        return draw.random()
    if entry.name.startswith("count_"):
        return draw.choice((0, 0, 1, 2))
    if entry.name in {"operators_left", "kernels"}:
        return draw.choice((0, 1, 2, 4, 8))
    value = LARGEST ** draw.random()
    return int(value) if entry.kind == "int" else value
