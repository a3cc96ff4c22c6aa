"""The scalar operations of a region, and how each is spelled in C++ on vectors and on single floats."""

from __future__ import annotations

import math
import struct

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGIC = {"and": "&", "or": "|", "xor": "^"}
FUNCTIONS = frozenset(
    [
        "abs",
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "tanh",
        "sigmoid",
        "erf",
        "sin",
        "cos",
        "floor",
        "ceil",
        "trunc",
        "round",
        "sign",
        "max",
        "min",
        "pow",
    ]
)
TRANSCENDENTAL = frozenset(["exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "pow"])
MASKS = frozenset([*COMPARE, *LOGIC, "not", "to_mask"])
"""Operations whose result is a mask."""
OTHERS = frozenset(["load", "where", "to_float", "not", "to_mask", "neg", "copy", "index"])
ALL = frozenset([*INFIX, *COMPARE, *LOGIC, *FUNCTIONS, *OTHERS])

STD = {
    "abs": "std::fabs", "exp": "std::exp", "expm1": "std::expm1", "log": "std::log", "log1p": "std::log1p",
    "sqrt": "std::sqrt", "tanh": "std::tanh", "erf": "std::erf", "sin": "std::sin", "cos": "std::cos",
    "floor": "std::floor", "ceil": "std::ceil", "trunc": "std::trunc", "round": "std::nearbyint", "pow": "std::pow",
}  # fmt: skip


SHORT_DIGITS = 6
"""Characters of a number that is read as easily as a quotient."""
LARGEST_COUNT = 1 << 24
"""Whole numbers up to here are exact in float32."""
LONGEST_WRITTEN_OUT = 10_000_000
"""Whole numbers below are written without an exponent."""
NON_FINITE = frozenset(["inf", "-inf", "nan"])
"""Numbers that JSON cannot spell are arguments by these names."""


def to_float32(value: float) -> float:
    """The nearest float32 (infinite where it overflows)."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def literal(value: float) -> str:
    """A float literal of C++ with the shortest digits that read back as the same float32."""
    number = to_float32(float(value))
    if math.isnan(number):
        return '__builtin_nanf("")'
    if math.isinf(number):
        return "__builtin_inff()" if number > 0 else "-__builtin_inff()"
    if count := reciprocal_of(number):
        return f"(1.0f / {count}.0f)"
    text = shortest(number)
    return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"


def shortest(number: float) -> str:
    """The fewest digits that read back as the same float32."""
    if number.is_integer() and abs(number) < LONGEST_WRITTEN_OUT:
        return str(int(number))
    texts = (f"{number:.{digits}g}" for digits in range(1, 18))
    return next(text for text in texts if to_float32(float(text)) == number)


def reciprocal_of(number: float) -> int:
    """The whole number n of which this float32 is 1 / n, where that tells more than its digits; else 0."""
    if not 0.0 < number < 1.0 or len(shortest(number)) <= SHORT_DIGITS:
        return 0
    count = round(1.0 / number)
    return count if count <= LARGEST_COUNT and to_float32(1.0 / count) == number else 0


def _bracket(argument: str | float) -> str:
    """An argument of an infix operator."""
    if isinstance(argument, str):
        return argument
    text = literal(argument)
    return f"({text})" if text.startswith("-") else text


def numbered(args: tuple[str | float, ...]) -> tuple[str | float, ...]:
    """Arguments with the names of non-finite numbers read as numbers."""
    return tuple(float(item) if item in NON_FINITE else item for item in args)


def on_vectors(fn: str, args: tuple[str | float, ...]) -> str:
    """The expression on registers of type `F`; masks are what comparisons give."""
    args = numbered(args)

    def vector(argument: str | float) -> str:
        if isinstance(argument, str):
            return argument
        return (
            "F{}" if argument == 0.0 and math.copysign(1.0, argument) > 0 else f"F{{}} + {_bracket(argument)}"
        )

    if fn in INFIX or fn in COMPARE:
        return f"{_bracket(args[0])} {(INFIX | COMPARE)[fn]} {_bracket(args[1])}"
    if fn in LOGIC:
        return f"{args[0]} {LOGIC[fn]} {args[1]}"
    if fn == "not":
        return f"~{args[0]}"
    if fn == "neg":
        return f"-{args[0]}"
    if fn == "index":
        return "index_at<F>(j)"
    if fn == "copy":
        return vector(args[0])
    if fn == "where":
        return f"{args[0]} ? {vector(args[1])} : {vector(args[2])}"
    if fn == "to_float":
        return f"{args[0]} ? F{{}} + 1.0f : F{{}}"
    if fn == "to_mask":
        return f"{args[0]} != 0.0f"
    return f"{fn}_({', '.join(vector(argument) for argument in args)})"


def on_floats(fn: str, args: tuple[str | float, ...]) -> str:
    """The expression on single floats, done once per row."""
    texts = [_bracket(argument) for argument in numbered(args)]
    if fn in INFIX or fn in COMPARE:
        return f"{texts[0]} {(INFIX | COMPARE)[fn]} {texts[1]}"
    if fn in LOGIC:
        return f"{texts[0]} {LOGIC[fn]} {texts[1]}"
    simple = {
        "not": "!{0}", "neg": "-{0}", "copy": "{0}", "where": "{0} ? {1} : {2}", "to_float": "{0} ? 1.0f : 0.0f",
        "to_mask": "{0} != 0.0f", "rsqrt": "1.0f / std::sqrt({0})", "sigmoid": "1.0f / (1.0f + std::exp(-{0}))",
        "max": "({0} > {1} || {0} != {0} ? {0} : {1})", "min": "({0} < {1} || {0} != {0} ? {0} : {1})",
        "sign": "({0} > 0.0f ? 1.0f : {0} < 0.0f ? -1.0f : {0})",
    }  # fmt: skip
    if fn in simple:
        return simple[fn].format(*texts)
    return f"{STD[fn]}({', '.join(texts)})"
