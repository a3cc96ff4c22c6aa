"""Operations as statements: what is used once is written where it is used, within the width of a line.

Nothing is computed differently: an expression keeps the order of its operations by brackets, and compilers see the same
values whether they have a name or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from kernelskill.program import scalar
from kernelskill.program.region import Op, Region, Stage

WIDTH = 76
"""Longest expression that is written into another one."""
CALL, UNARY, PRODUCT, SUM, ABOVE_COMPARISONS, COMPARISON, TERNARY = 9, 7, 6, 5, 4, 3, 0
"""How tightly a kind of expression holds its arguments."""

Spell = Callable[[str, tuple[str | float, ...]], str]
"""Operation and texts of its arguments -> an expression."""


@dataclass(frozen=True)
class Dialect:
    """What brackets depend on."""

    calls: frozenset[str] = frozenset()
    """Operations that are infix or ternary elsewhere, and calls here."""
    products: frozenset[str] = frozenset()
    """Calls elsewhere that are quotients here."""
    repeats: frozenset[str] = frozenset()
    """Operations whose spelling names an argument more than once."""

    def strength(self, fn: str) -> int:
        """How tightly an expression of this operation is bound together."""
        if fn in self.calls:
            return CALL
        if fn in {"mul", "div"} or fn in self.products:
            return PRODUCT
        if fn in {"add", "sub", "copy"}:
            return SUM
        if fn in scalar.COMPARE or fn in scalar.LOGIC or fn == "to_mask":
            return COMPARISON
        if fn in {"where", "to_float"}:
            return TERNARY
        return UNARY if fn in {"neg", "not"} else CALL

    def least(self, fn: str, place: int) -> int:
        """Strength below which an argument needs brackets."""
        own = self.strength(fn)
        if fn in self.products:
            return UNARY + 1 if fn == "sigmoid" else 0
        if own in (PRODUCT, SUM):
            return own + place
        if own == COMPARISON:
            return ABOVE_COMPARISONS
        return {CALL: 0, TERNARY: 1}.get(own, own + 1)


ON_VECTORS = Dialect()
ON_FLOATS = Dialect(
    calls=frozenset(["max", "min", "sign"]), products=frozenset(["rsqrt", "sigmoid"]),
    repeats=frozenset(["max", "min", "sign"]),
)  # fmt: skip
ON_TILES = Dialect(calls=frozenset(["div", "where", "to_float", "copy"]), repeats=frozenset(["sign"]))


class Statements:
    """Spells operations in turn.

    Args:
        spell: the language's expressions.
        dialect: the language's brackets.
        uses: how often each name is used by what is spelled here; a name that is missing is always given a statement.
    """

    def __init__(self, spell: Spell, dialect: Dialect, uses: Counter[str]) -> None:
        self._spell = spell
        self._dialect = dialect
        self._uses = uses
        self._waiting: dict[str, tuple[Op, str]] = {}
        """Name -> operation and text, to be written where the name is used."""

    def of(self, op: Op) -> list[tuple[Op, str]]:
        """The statements due at an operation: (operation, expression), none where it waits for its only user."""
        due = []
        if op.fn in self._dialect.repeats:
            due += [
                self._waiting.pop(arg) for arg in op.args if isinstance(arg, str) and arg in self._waiting
            ]
        text = self._spelled(op)
        while len(text) > WIDTH and (longest := self._longest(op.args)):
            due.append(self._waiting.pop(longest))
            text = self._spelled(op)
        if self._uses[op.name] == 1 and len(text) <= WIDTH:
            self._waiting[op.name] = (op, text)
            return due
        return [*due, (op, text)]

    def __contains__(self, name: str) -> bool:
        """Whether a value waits for its only user."""
        return name in self._waiting

    def text(self, name: str, least: int = 0) -> str:
        """A value by its name, or by its expression; in brackets where that is bound less tightly than `least`."""
        if name not in self._waiting:
            return name
        op, text = self._waiting[name]
        return f"({text})" if self._dialect.strength(op.fn) < least else text

    def _spelled(self, op: Op) -> str:
        return self._spell(
            op.fn, tuple(self._argument(op.fn, place, item) for place, item in enumerate(op.args))
        )

    def _argument(self, fn: str, place: int, item: str | float) -> str | float:
        if not isinstance(item, str) or item not in self._waiting:
            return item
        text = self.text(item, self._dialect.least(fn, place))
        return f"({text})" if place and text.startswith("-") else text

    def _longest(self, args: Sequence[str | float]) -> str:
        waiting = [arg for arg in args if isinstance(arg, str) and arg in self._waiting]
        return max(waiting, key=lambda name: len(self._waiting[name][1]), default="")


def uses_in(stages: Iterable[Stage], outside: Iterable[Stage] = ()) -> Counter[str]:
    """How often stages use each name; names that other stages use as well count as used often.

    An extreme's or a softmax's value is named in several places of a fold, so it counts twice.
    """
    counts: Counter[str] = Counter()
    for stage in stages:
        for op in {op.name: op for op in stage.ops}.values():
            counts.update(arg for arg in op.args if isinstance(arg, str) and op.fn != "load")
        counts.update(store.value for store in stage.stores)
        for item in stage.reductions:
            counts[item.value] += 2 if item.fold in {"softmax", "argmax", "argmin"} else 1
    for name in used_by(outside):
        counts[name] += 2
    return counts


def still_needed(stage: Stage, kept: Collection[str]) -> list[Op]:
    """Operations of a stage without those that only led to values which were kept."""
    if not any(op.name in kept for op in stage.ops):
        return list(stage.ops)
    wanted: set[str | float] = {store.value for store in stage.stores}
    wanted |= {item.value for item in stage.reductions}
    found: list[Op] = []
    for op in reversed(stage.ops):
        if op.name in wanted:
            found.append(op)
            wanted |= set() if op.name in kept else set(op.args)
    return found[::-1]


def used_by(stages: Iterable[Stage]) -> set[str]:
    """Names that stages use."""
    found: set[str] = set()
    for stage in stages:
        found |= {arg for op in stage.ops if op.fn != "load" for arg in op.args if isinstance(arg, str)}
        found |= {store.value for store in stage.stores} | {item.value for item in stage.reductions}
    return found


def others(region: Region, stage: Stage) -> list[Stage]:
    """All other stages of a region, and a last one that uses what is folded over all rows."""
    last = [region.total_stage] if region.total_stage else []
    total = [Stage(kind="reduce", reductions=region.total)] if region.total else []
    return [item for item in (*region.stages, *last) if item is not stage] + total
