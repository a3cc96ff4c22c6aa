"""Numbers and texts that a worker sent, before anything is done with them. A reply may be forged by native code."""

from __future__ import annotations

import math
from typing import Any

from kernelskill.evaluation.process import WorkerFailure
from kernelskill.records import Status

MOST_FLAGS = 8
FLAG_LENGTH = 200
NAME_LENGTH = 80
DETAIL_LENGTH = 8000


def text(value: object, length: int) -> str:
    """A string that every file and record takes: bounded, without lone surrogates."""
    return str(value)[:length].encode("utf-8", "replace").decode()


def number(value: object) -> float | None:
    """A finite number of at least 0, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def times_ms(reply: dict[str, Any], count: int) -> list[float]:
    """The worker's own time of every call, milliseconds.

    Raises:
        WorkerFailure: they are not `count` finite numbers.
    """
    listed = reply.get("times_us")
    found = [number(item) for item in listed] if isinstance(listed, list) else []
    known = [item / 1e3 for item in found if item is not None]
    if len(known) != count or len(found) != count:
        raise WorkerFailure(Status.INTEGRITY, "the reply to a run does not name one time per call", "")
    return known


def flags(reply: dict[str, Any]) -> tuple[str, ...]:
    """Advisory remarks of the runner."""
    listed = reply.get("flags")
    return tuple(text(item, FLAG_LENGTH) for item in listed[:MOST_FLAGS]) if isinstance(listed, list) else ()


def names(reply: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of names under a key; empty for anything else."""
    listed = reply.get(key)
    return tuple(text(item, FLAG_LENGTH) for item in listed[:10_000]) if isinstance(listed, list) else ()
