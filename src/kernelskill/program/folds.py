"""How folds are spelled: what they start from, how two partial results meet, how a register becomes one number."""

from __future__ import annotations

import math

from kernelskill.program.memory_access import EXTREMES
from kernelskill.program.region import Reduction

IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "any": 0.0, "all": 1.0,
            "argmax": -math.inf, "argmin": math.inf}  # fmt: skip


def registers_of(item: Reduction) -> tuple[str, ...]:
    """Names of the registers that a fold needs: its value, and before it the extreme whose place it is."""
    return (f"{item.name}_best", item.name) if item.fold in EXTREMES else (item.name,)


def combine(fold: str, left: str, right: str) -> str:
    """Two partial results as one."""
    if fold in {"max", "min"}:
        return f"{fold}_({left}, {right})"
    if fold in {"any", "all"}:
        return f"{'max_' if fold == 'any' else 'min_'}({left}, {right})"
    return f"{left} {'+' if fold == 'sum' else '*'} {right}"


ACROSS = {"any": "max", "all": "min"}
"""Folds of masks are folds of zeros and ones."""
SYMBOL = {"sum": "+", "prod": "*"}
"""Folds that OpenMP may combine; its maximum would lose a NaN."""


def into(item: Reduction, value: str) -> str:
    """The statement that adds a partial result to the row's value."""
    whole = f"{item.name}_all"
    if item.fold == "sum":
        return f"{whole} += {value};"
    if item.fold == "prod":
        return f"{whole} *= {value};"
    fold = "max" if item.fold in {"max", "any"} else "min"
    compare = ">" if fold == "max" else "<"
    return f"{{ const float v = {value}; if (v {compare} {whole} || v != v) {whole} = v; }}"
