"""How folds are spelled: what they start from, how two partial results meet, how a register becomes one number."""

from __future__ import annotations

import math

from kernelskill.program.memory_access import EXTREMES
from kernelskill.program.region import Reduction
from kernelskill.program.scalar import literal

IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "any": 0.0, "all": 1.0,
            "argmax": -math.inf, "argmin": math.inf}  # fmt: skip


def registers_of(item: Reduction) -> tuple[str, ...]:
    """Names of the registers that a fold needs: its value, and before it the extreme whose place it is."""
    return (f"{item.name}_best", item.name) if item.fold in EXTREMES else (item.name,)


def initial(item: Reduction, name: str) -> str:
    """The initialiser of one of a fold's registers."""
    start = IDENTITY[item.fold] if name != item.name or item.fold not in EXTREMES else 0.0
    if start in (-math.inf, math.inf):
        return f" = F{{}} {'-' if start < 0 else '+'} __builtin_inff()"
    return f" = F{{}} + {literal(start)}" if start else "{}"


def combine(fold: str, total: str, value: str) -> str:
    """The statement that adds a value to a partial result."""
    if fold in SYMBOL:
        return f"{total} {SYMBOL[fold]}= {value};"
    return f"{total} = {ACROSS.get(fold, fold)}_({total}, {value});"


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
