"""Expressions of several operations: the same values as one statement an operation, within the width of a line."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kernelskill.program import scalar
from kernelskill.program.region import Op, Reduction, Stage, Store
from kernelskill.program.statements import (
    ON_FLOATS,
    ON_TILES,
    ON_VECTORS,
    WIDTH,
    Dialect,
    Statements,
    uses_in,
)

SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "eq": "==", "and": "&", "or": "|"}
NUMBERS, MASKS = ("add", "sub", "mul", "div", "neg"), ("lt", "eq", "and", "or")


def python(fn: str, args: tuple[str | float, ...]) -> str:
    """The expression in Python, whose brackets are those of C++ but for comparisons, which always have theirs."""
    if fn == "neg":
        return f"-{args[0]}"
    return f"{args[0]} {SYMBOLS[fn]} {args[1]}"


def random_ops(seed: int) -> list[Op]:
    """A program of forty operations on x, y and z, none of which divides by what may be zero."""
    draw = random.Random(seed)
    numbers, masks, ops = ["x", "y", "z"], [], []
    for count in range(40):
        fn = draw.choice(NUMBERS + (MASKS if len(masks) > 1 else ("lt",)))
        kind = masks if fn in ("and", "or") else numbers
        args = [draw.choice(kind[-6:]), draw.choice(["y", "z", 2.5, -0.5] if fn == "div" else kind[-6:])]
        ops.append(Op(name=f"v{count}", fn=fn, args=tuple(args[:1] if fn == "neg" else args)))
        (masks if fn in MASKS else numbers).append(f"v{count}")
    return ops


@pytest.mark.parametrize("dialect", [ON_VECTORS, Dialect()], ids=["vectors", "plain"])
@pytest.mark.parametrize("seed", range(30))
def test_brackets_keep_the_order_of_operations(dialect: Dialect, seed: int) -> None:
    ops = random_ops(seed)
    plain: dict[str, float | bool] = {"x": 1.7, "y": -0.3, "z": 11.0}
    values = dict(plain)
    for op in ops:
        plain[op.name] = eval(python(op.fn, tuple(f"({arg})" for arg in op.args)), {}, plain)
    last = [op.name for op in ops[-4:]]
    stage = Stage(kind="map", ops=tuple(ops), stores=tuple(Store(operand=name, value=name) for name in last))
    said = Statements(python, dialect, uses_in([stage]))
    written = 0
    for op in ops:
        for due, text in said.of(op):
            values[due.name] = eval(text, {}, values)
            written += 1
    assert {name: eval(said.text(name), {}, values) for name in last} == {name: plain[name] for name in last}
    assert written < len(ops)


def test_a_long_expression_is_parted() -> None:
    ops = [Op(name="v0", fn="add", args=("x", 1.0))]
    ops += [Op(name=f"v{k}", fn="mul", args=(f"v{k - 1}", f"a_value_{k}")) for k in range(1, 20)]
    said = Statements(python, ON_VECTORS, uses_in([Stage(kind="map", ops=tuple(ops))]))
    lines = [text for op in ops for _, text in said.of(op)]
    assert len(lines) > 2
    assert max(map(len, lines)) <= WIDTH


def test_what_a_spelling_names_twice_keeps_its_name() -> None:
    ops = [Op(name="a", fn="add", args=("x", "y")), Op(name="b", fn="max", args=("a", "z"))]
    uses = Counter({"a": 1, "b": 2})
    said = Statements(scalar.on_floats, ON_FLOATS, uses)
    assert [text for op in ops for _, text in said.of(op)] == ["x + y", "(a > z || a != a ? a : z)"]
    said = Statements(scalar.on_vectors, ON_VECTORS, uses)
    assert [text for op in ops for _, text in said.of(op)] == ["max_(x + y, z)"]


def test_calls_need_no_brackets_and_quotients_do() -> None:
    ops = [
        Op(name="a", fn="add", args=("variance", 1e-05)),
        Op(name="b", fn="rsqrt", args=("a",)),
        Op(name="c", fn="div", args=("x", "b")),
    ]
    uses = Counter({"a": 1, "b": 1})
    said = Statements(scalar.on_floats, ON_FLOATS, uses)
    assert [text for op in ops for _, text in said.of(op)] == ["x / (1.0f / std::sqrt(variance + 1e-05f))"]
    assert ON_TILES.least("div", 1) == 0


def test_a_value_that_is_folded_in_several_places_is_named() -> None:
    ops = (Op(name="v", fn="mul", args=("x", "x")),)
    for fold, times in (("sum", 1), ("softmax", 2), ("argmax", 2)):
        stage = Stage(kind="reduce", ops=ops, reductions=(Reduction(name="r", fold=fold, value="v"),))
        assert uses_in([stage])["v"] == times
    assert uses_in([stage], [Stage(kind="map", stores=(Store(operand="out", value="x"),))])["x"] > 1
