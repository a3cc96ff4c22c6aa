"""What walks over rows on chip save: costly values that several of them compute alike.

The first walk that computes such a value leaves it on chip, in place of what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelskill.program.region import Op, Operand, Region, Stage
from kernelskill.program.scalar import TRANSCENDENTAL


@dataclass(frozen=True)
class Reuse:
    """A value that takes the place of an input in shared memory."""

    walk: int
    """Number of the walk that computes it."""
    name: str
    """What it is called there."""
    later: frozenset[str]
    """What it is called in later walks."""
    operand: str
    """The input whose place it takes; no later walk needs that."""


def reused(region: Region, kept: Sequence[Operand]) -> Reuse | None:
    """The first such value, if there is one and the one kept input has room for it.

    Args:
        region: what is printed.
        kept: inputs that are held on chip.
    """
    walks = [stage for stage in region.stages if stage.kind in {"reduce", "map"}]
    if len(kept) != 1 or kept[0].dtype != "float32":
        return None
    keys = dict(_keys(region))
    for number, stage in enumerate(walks[:-1]):
        for op in needed(stage.ops, wanted(stage)):
            if op.fn not in TRANSCENDENTAL:
                continue
            after = [(item, needed(item.ops, wanted(item))) for item in walks[number + 1 :]]
            twins = {other.name for _, ops in after for other in ops if keys[other.name] == keys[op.name]}
            if all(_spares(item, twins, kept[0].name) for item, _ in after):
                return Reuse(number, op.name, frozenset(twins), kept[0].name)
    return None


def wanted(stage: Stage) -> list[str]:
    """Values that a walk is for."""
    return [*(item.value for item in stage.reductions), *(item.value for item in stage.stores)]


def needed(
    ops: Sequence[Op], values: Sequence[str], given: frozenset[str] | set[str] = frozenset()
) -> list[Op]:
    """Operations that some values depend on, in order; nothing is needed for those that are given."""
    names = set(values)
    for op in reversed(ops):
        if op.name in names and op.fn != "load" and op.name not in given:
            names.update(arg for arg in op.args if isinstance(arg, str))
    return [op for op in ops if op.name in names]


def _spares(stage: Stage, twins: set[str], operand: str) -> bool:
    """Whether a walk takes the value, and without computing it does not read the operand."""
    ops = needed(stage.ops, wanted(stage), twins)
    return any(op.name in twins for op in ops) and not any(
        op.fn == "load" and op.args[0] == operand for op in ops
    )


def _keys(region: Region) -> Iterator[tuple[str, object]]:
    """Name of each operation -> what it computes, from operands and folds on."""
    found: dict[str, object] = {}
    for stage in region.stages:
        for op in stage.ops:
            arguments = op.args if op.fn == "load" else tuple(found.get(str(arg), arg) for arg in op.args)
            found[op.name] = (op.fn, *arguments)
            yield op.name, found[op.name]
