"""Functions that printed kernels call on the device: printed where used, each after what it calls.

Triton's own exponential is off by many units in the last place for large arguments, and it has no tanh, expm1, log1p
or pow of its own; these are as close as the library's and also run in Triton's interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LARGER = '''\
@triton.jit
def _larger(x, y):
    """Maximum; a NaN stays."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
'''

SMALLER = '''\
@triton.jit
def _smaller(x, y):
    """Minimum; a NaN stays."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
'''

TIMES = """\
@triton.jit
def _times(x, y):
    return x * y
"""

IS_LARGER = '''\
@triton.jit
def _is_larger(x, y):
    """Whether x is the maximum of the two; a NaN is the largest, and of equals y stays."""
    return (x > y) | ((x != x) & (y == y))
'''

IS_SMALLER = '''\
@triton.jit
def _is_smaller(x, y):
    """Whether x is the minimum of the two; a NaN is the smallest, and of equals y stays."""
    return (x < y) | ((x != x) & (y == y))
'''

FIRST_LARGEST = '''\
@triton.jit
def _first_largest(x, i, y, j):
    """The larger value and its place; a NaN is the largest, and of equals the first one wins."""
    second = (y > x) | ((y != y) & (x == x)) | (((y == x) | ((y != y) & (x != x))) & (j < i))
    return tl.where(second, y, x), tl.where(second, j, i)
'''

FIRST_SMALLEST = '''\
@triton.jit
def _first_smallest(x, i, y, j):
    """The smaller value and its place; a NaN is the smallest, and of equals the first one wins."""
    second = (y < x) | ((y != y) & (x == x)) | (((y == x) | ((y != y) & (x != x))) & (j < i))
    return tl.where(second, y, x), tl.where(second, j, i)
'''

EXP = '''\
@triton.jit
def _exp(x):
    """exp(x); what rounding takes from x * log2(e) is put back."""
    power = x * 1.4426950408889634
    lost = tl.fma(x, 1.4426950408889634, -power) + x * 1.925963033500e-08
    result = tl.exp2(power)
    return tl.where(tl.abs(power) < 127.9, result + result * (lost * 0.6931471805599453), result)
'''

SIGMOID = """\
@triton.jit
def _sigmoid(x):
    return tl.div_rn(1.0, 1.0 + _exp(-x))
"""

TANH = '''\
@triton.jit
def _tanh(x):
    """tanh(x); near zero by its series, which loses nothing to cancellation."""
    size, square = tl.abs(x), x * x
    series = tl.fma(tl.fma(tl.fma(square, 0.0157396831, -0.0523039624), square, 0.133152977), square, -0.333327681)
    far = 1.0 - tl.div_rn(2.0, _exp(2.0 * size) + 1.0)
    return tl.where(size < 0.55, tl.fma(series * square, x, x), tl.where(x < 0.0, -far, far))
'''

EXPM1 = '''\
@triton.jit
def _expm1(x):
    """exp(x) - 1; near zero by its series, which loses nothing to cancellation."""
    series = tl.fma(tl.fma(tl.fma(x, 2.4801587e-05, 1.9841270e-04), x, 1.3888889e-03), x, 8.3333333e-03)
    series = tl.fma(tl.fma(tl.fma(series, x, 4.1666668e-02), x, 0.16666667), x, 0.5)
    return tl.where(tl.abs(x) < 0.5, tl.fma(series * x, x, x), _exp(x) - 1.0)
'''

LOG1P = '''\
@triton.jit
def _log1p(x):
    """log(1 + x); the rounding of 1 + x is taken out again."""
    whole = 1.0 + x
    exact = (whole == 1.0) | (whole == float("inf"))
    return tl.where(exact, x, tl.log(whole) * tl.div_rn(x, tl.where(exact, 1.0, whole - 1.0)))
'''

TRUNC = """\
@triton.jit
def _trunc(x):
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))
"""

ROUND = '''\
@triton.jit
def _round(x):
    """To the nearest integer, ties to even: adding 1.5 * 2**23 leaves no room for a fraction."""
    return tl.where(tl.abs(x) < 4194304.0, (x + 12582912.0) - 12582912.0, x)
'''

POW = '''\
@triton.jit
def _pow(x, y):
    """x ** y by way of double, where no digit of a float is lost."""
    base, power = x + y * 0.0, y + x * 0.0
    base, power = tl.where(base == base, base, x), tl.where(power == power, power, y)
    size = tl.exp(power.to(tl.float64) * tl.log(tl.abs(base).to(tl.float64))).to(tl.float32)
    half = power * 0.5
    whole = (tl.floor(power) == power) | (tl.abs(base) == float("inf"))
    odd = (tl.floor(power) == power) & (tl.floor(half) != half)
    signed = tl.where((base < 0.0) & odd, -size, tl.where((base < 0.0) & ~whole, float("nan"), size))
    return tl.where((power == 0.0) | (base == 1.0), 1.0, signed)
'''

PIECES = {
    "_larger": LARGER, "_smaller": SMALLER, "_times": TIMES, "_is_larger": IS_LARGER,
    "_is_smaller": IS_SMALLER, "_first_largest": FIRST_LARGEST,
    "_first_smallest": FIRST_SMALLEST, "_exp": EXP, "_sigmoid": SIGMOID, "_tanh": TANH, "_expm1": EXPM1,
    "_log1p": LOG1P, "_trunc": TRUNC, "_round": ROUND, "_pow": POW,
}  # fmt: skip
"""Name -> text, in an order in which each comes after what it calls."""
DEPENDS = {
    name: frozenset(other for other in PIECES if other != name and f"{other}(" in text)
    for name, text in PIECES.items()
}


def called_by(texts: Iterable[str]) -> list[str]:
    """Texts of the device functions that kernels name, and of what these call."""
    words = {word for text in texts for word in re.findall(r"\b_\w+", text)}
    used = {name for name in PIECES if name in words}
    for name in reversed(PIECES):
        if name in used:
            used |= DEPENDS[name]
    return [text.rstrip() for name, text in PIECES.items() if name in used]
