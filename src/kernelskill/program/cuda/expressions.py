"""Scalar operations of a region as expressions of CUDA C++, without any header."""

from __future__ import annotations

import re

from kernelskill.program import scalar

TYPES = {"float32": "float", "float16": "on_chip::f16", "bfloat16": "on_chip::bf16", "bool": "bool"}
"""Storage type -> C++ type."""
NUMBERS = {
    '__builtin_nanf("")': "__int_as_float(0x7fffffff)",
    "__builtin_inff()": "__int_as_float(0x7f800000)",
}


def expression(fn: str, args: tuple[str | float, ...]) -> str:
    """The expression on floats and bools; the device's own functions are at least as accurate as eager's."""
    return spelled(scalar.on_floats(fn, args))


def number(value: float) -> str:
    """A float literal."""
    return spelled(scalar.literal(value))


def spelled(text: str) -> str:
    """Text for single floats of the CPU's C++, in the device's words."""
    for old, new in NUMBERS.items():
        text = text.replace(old, new)
    return re.sub(r"std::(\w+)", r"\1f", text)
