"""Scalar operations of a region as expressions of Triton, and the device functions that they call."""

from __future__ import annotations

import math

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.program.triton.device_functions import DEPENDS

INFIX = {"add": "+", "sub": "-", "mul": "*", **scalar.COMPARE, **scalar.LOGIC}
FORMS = {
    "div": "tl.div_rn({0}, {1})", "neg": "-{0}", "not": "~{0}", "copy": "{0}", "where": "tl.where({0}, {1}, {2})",
    "to_float": "tl.where({0}, 1.0, 0.0)", "to_mask": "{0} != 0.0", "abs": "tl.abs({0})", "sqrt": "tl.sqrt_rn({0})",
    "rsqrt": "tl.rsqrt({0})", "log": "tl.log({0})", "erf": "tl.erf({0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "floor": "tl.floor({0})", "ceil": "tl.ceil({0})",
    "sign": "tl.where({0} > 0.0, 1.0, tl.where({0} < 0.0, -1.0, {0}))",
    "max": "_larger({0}, {1})", "min": "_smaller({0}, {1})",
}  # fmt: skip
"""Operations that are not infix; all others are device functions of their name (`exp` is `_exp`)."""
DEVICE = frozenset(name.removeprefix("_") for name in DEPENDS)
TENSORS = frozenset(["div", "max", "min", "pow"])
"""Forms whose arguments must be float32: a number beside a number is none."""


def number(value: float) -> str:
    """A number with the shortest digits that read back as the same float32."""
    rounded = scalar.to_float32(float(value))
    if not math.isfinite(rounded):
        return f'float("{rounded}")'
    if count := scalar.reciprocal_of(rounded):
        return f"(1.0 / {count}.0)"
    text = scalar.shortest(rounded)
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def expression(fn: str, args: tuple[str | float, ...]) -> str:
    """The expression of one operation.

    Args:
        fn: a name of `scalar.ALL` other than `load` and `index`.
        args: names of values, or numbers.

    Raises:
        ProgramError: the operation is not printed.
    """
    given = scalar.numbered(args)
    texts = [item if isinstance(item, str) else number(item) for item in given]
    if fn in INFIX:
        right = f"({texts[1]})" if texts[1].startswith("-") else texts[1]
        return f"{texts[0]} {INFIX[fn]} {right}"
    if fn == "where" and not any(isinstance(item, str) for item in given[1:]):
        return FORMS[fn].format(*texts)
    if fn in FORMS:
        return FORMS[fn].format(*texts)
    if fn in DEVICE:
        return f"_{fn}({', '.join(texts)})"
    raise ProgramError(f"operation {fn} is not printed for GPUs")
