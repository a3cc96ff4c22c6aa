"""Positions of largest or sorted elements: equal and nearly equal elements may come in another order.

Eager's own positions differ from the twin's where two elements are nearly equal. A candidate may differ as often:
its share of positions that differ from the twin's is held against eager's share, not against zero. Inputs with many
exactly equal elements prove nothing about such outputs, because the order of equal elements is not defined.
"""

from __future__ import annotations

import torch

from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.families import OVERFLOWING
from kernelskill.records import FamilyError, Graph, Ref

POSITIONS = (
    "argmax",
    "argmin",
    "topk",
    "sort",
    "argsort",
    "kthvalue",
    "median",
    "mode",
    "max.dim",
    "min.dim",
)
"""Parts of the names of operators that give positions."""
TIED_FAMILIES = frozenset({"zero-blocks", OVERFLOWING})
"""Families whose inputs hold many equal elements (a hundred and a random number keep few digits of it)."""
SHARE = 1e-4
"""Share of positions that may differ even where eager's do not (near ties are rare, and then a matter of luck)."""


def position_outputs(graph: Graph | None) -> frozenset[int]:
    """Outputs that are positions: results of an operator that gives them."""
    if graph is None:
        return frozenset()
    ops = {node.name: node.op for node in graph.nodes}
    found = set()
    for place, output in enumerate(graph.outputs):
        if isinstance(output, Ref) and any(word in ops.get(output.node, "") for word in POSITIONS):
            found.add(place)
    return frozenset(found)


def judge_positions(pool: Pool, family: str, name: str) -> FamilyError:
    """Positions against the twin's, allowing as many differences as eager has, and a few."""
    mine = eager = total = 0
    valid = True
    for c, e, y in zip(pool.candidate, pool.eager, pool.twin, strict=True):
        mine += int((c != y).sum())
        eager += int((e != y).sum())
        total += c.numel()
        valid = valid and bool((c >= 0).all() | (e < 0).any())
    limit = 2 * eager + SHARE * total
    passed = valid and mine <= limit
    note = (
        "" if passed else f"{mine} of {total} positions differ from the exact ones; eager's differ at {eager}"
    )
    share = mine / max(total, 1)
    return FamilyError(
        family=family, output=name, rms=share, rms_eager=eager / max(total, 1), limit=limit / max(total, 1),
        worst_abs=None, passed=passed, note=note,
    )  # fmt: skip


def same_positions(candidate: torch.Tensor, due: torch.Tensor) -> bool:
    """Whether two lists of positions of one timed call agree but for a few near ties."""
    return few(int((candidate != due).sum()), due.numel())


def few(different: int, total: int) -> bool:
    """Whether so many of so many positions may differ by near ties: one in any case, however few there are."""
    return different <= max(1, 4 * SHARE * total)
