"""How numbers are written: three significant digits, with the unit that reads best."""

from __future__ import annotations

from kernelskill.records import Interval

MISSING = "–"  # noqa: RUF001 - an en dash is the typographic sign for "no value"


def significant(value: float, digits: int = 3) -> str:
    """Three significant digits without an exponent between 1e-4 and 1e6."""
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-4 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return text


def milliseconds(value: float | None) -> str:
    """A time given in milliseconds, in ns, us, ms or s."""
    if value is None:
        return MISSING
    for limit, factor, unit in ((1e-3, 1e6, "ns"), (1.0, 1e3, "µs"), (1e3, 1.0, "ms")):
        if abs(value) < limit:
            return f"{significant(value * factor)} {unit}"
    return f"{significant(value / 1e3)} s"


def ratio(value: float | None) -> str:
    """A speedup: 2.41x."""
    if value is None:
        return MISSING
    return f"{value:.2f}x" if value < 100 else f"{value:.0f}x"


def interval(value: Interval | None) -> str:
    """A speedup with its 95 % interval."""
    if value is None:
        return MISSING
    return f"{ratio(value.value)} [{value.low:.2f}, {value.high:.2f}]"


def percent(value: float | None) -> str:
    """A share given as a ratio."""
    return MISSING if value is None else f"{100 * value:.0f} %"


def count(value: float | None, unit: str = "") -> str:
    """A large number with a decimal prefix: 1.34 GB."""
    if value is None:
        return MISSING
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{significant(value / limit)} {prefix}{unit}"
    return f"{significant(value)} {unit}".rstrip()


def error(value: float | None) -> str:
    """A relative error."""
    return MISSING if value is None else f"{value:.1e}"


def seconds(value: float | None) -> str:
    """Wall seconds."""
    return MISSING if value is None else f"{value:.1f} s"
