"""How folds are spelled: registers and what they start from, how a value joins them, how a tile becomes one value."""

from __future__ import annotations

import math

from kernelskill.program.region import Reduction
from kernelskill.program.triton.expressions import number

IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "any": 0.0, "all": 1.0,
            "argmax": -math.inf, "argmin": math.inf, "softmax": -math.inf}  # fmt: skip
"""What stands in for elements beyond the end of a row."""
BETTER = {"argmax": "_is_larger", "argmin": "_is_smaller"}
EXTREMES = {"argmax": "_first_largest", "argmin": "_first_smallest"}
PAIRS = {"max": "_larger", "min": "_smaller", "any": "tl.maximum", "all": "tl.minimum"}
NOWHERE = 2**31 - 1
"""The place of an identity: behind all real ones."""


def registers(item: Reduction) -> dict[str, tuple[str, str]]:
    """Name -> (dtype, what it starts from) of the values that a fold carries."""
    start = number(IDENTITY[item.fold])
    if item.fold in EXTREMES:
        return {f"{item.name}_best": ("tl.float32", start), item.name: ("tl.int32", str(NOWHERE))}
    if item.fold == "softmax":
        return {item.top: ("tl.float32", start), item.name: ("tl.float32", "0.0")}
    return {item.name: ("tl.float32", start)}


def join(item: Reduction, value: str, place: str) -> list[str]:
    """Statements that fold a tile into registers of the tile's shape."""
    name = item.name
    if item.fold in EXTREMES:
        return [
            f"{name}_better = {BETTER[item.fold]}({value}, {name}_best)",
            f"{name}_best = tl.where({name}_better, {value}, {name}_best)",
            f"{name} = tl.where({name}_better, {place}, {name})",
        ]
    if item.fold == "softmax":
        return [
            f"{item.top}_next = tl.maximum({item.top}, {value})",
            _above(f"{item.top}_finite", f"{item.top}_next"),
            f"{name} = {name} * _exp({item.top} - {item.top}_finite) + _exp({value} - {item.top}_finite)",
            f"{item.top} = {item.top}_next",
        ]
    if item.fold in PAIRS:
        return [f"{name} = {PAIRS[item.fold]}({name}, {value})"]
    return [f"{name} {'+' if item.fold == 'sum' else '*'}= {value}"]


def settle(item: Reduction, axis: int, keep: str) -> list[str]:
    """Statements that fold registers along an axis of the tile."""
    name = item.name
    if item.fold == "softmax":
        return [
            f"{item.top}_lanes = {item.top}",
            f"{item.top} = tl.max({item.top}_lanes, axis={axis}{keep})",
            _above(f"{item.top}_finite", item.top),
            f"{name} = tl.sum({name} * _exp({item.top}_lanes - {item.top}_finite), axis={axis}{keep})",
        ]
    if item.fold in EXTREMES:
        both = f"{name}_best, {name}"
        return [f"{both} = tl.reduce(({both}), {axis}, {EXTREMES[item.fold]}{keep})"]
    return [f"{name} = {across(item.fold, name, axis, keep)}"]


def fold(item: Reduction, value: str, place: str, axis: int, keep: str, power: str = "") -> list[str]:
    """Statements that fold a single tile; `power` names the exponentials of a softmax, if they are wanted."""
    name = item.name
    if item.fold == "softmax":
        power = power or f"{name}_power"
        return [
            f"{item.top} = tl.max({value}, axis={axis}{keep})",
            _above(f"{item.top}_finite", item.top),
            f"{power} = _exp({value} - {item.top}_finite)",
            f"{name} = tl.sum({power}, axis={axis}{keep})",
        ]
    if item.fold in EXTREMES:
        combine = EXTREMES[item.fold]
        return [f"_, {name} = tl.reduce(({value}, {place}), {axis}, {combine}{keep})"]
    return [f"{name} = {across(item.fold, value, axis, keep)}"]


def across(kind: str, value: str, axis: int, keep: str) -> str:
    """One value out of a tile."""
    if kind in {"sum", "any", "all"}:
        function = {"sum": "sum", "any": "max", "all": "min"}[kind]
        return f"tl.{function}({value}, axis={axis}{keep})"
    combine = {"prod": "_times", "max": "_larger", "min": "_smaller"}[kind]
    return f"tl.reduce({value}, {axis}, {combine}{keep})"


def _above(name: str, top: str) -> str:
    """What exponents are taken above: a row may be masked out altogether."""
    return f'{name} = tl.where({top} == float("-inf"), 0.0, {top})'
