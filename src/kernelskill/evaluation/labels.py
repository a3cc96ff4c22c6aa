"""What a candidate is, from what ran in a call of it."""

from __future__ import annotations

from collections.abc import Iterable

from kernelskill.evaluation import replies
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.seat import Seat
from kernelskill.records import Json, Labels
from kernelskill.records.evaluation import Label

OWN_SHARE = 0.5
"""Share of the time outside library operators from which a candidate counts as its own."""
BUSY_SHARE = 0.5
"""Share of a call that a GPU must be busy for, or the call counts as launch-bound."""
OBSERVE_S = 30.0
"""Least time that watching may take: a GPU's tracer needs seconds to begin."""
MOST_OPERATORS = 24
HARMLESS = frozenset({"algebraic", "specialised"})
"""Labels that say something beside what ran; no policy excludes them."""


def observe(seat: Seat, flags: Iterable[str], skills: tuple[str, ...]) -> Labels:
    """Labels of a candidate that was judged already (what it does now decides nothing any more)."""
    try:
        seat.wake()
        seen = seat.worker.call("operators", timeout_s=max(seat.seconds, OBSERVE_S))
    except WorkerFailure as failure:
        return Labels(flags=(*flags, f"could not be observed: {replies.text(failure.detail, 100)}"))
    return labels_of(seen, tuple(flags), skills)


def labels_of(seen: Json, flags: tuple[str, ...], skills: tuple[str, ...]) -> Labels:
    """Labels from the worker's observation, which may be forged: it labels, it never ranks."""
    found = replies.number(seen.get("own_share_ratio"))
    share = None if found is None else min(found, 1.0)
    listed = seen.get("operators")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    operators = tuple(replies.text(row.get("op"), replies.NAME_LENGTH) for row in rows[:MOST_OPERATORS])
    kinds: list[Label] = ["graph"] if seen.get("graphed") is True else []
    flags += launch_bound(seen)
    if seen.get("static_output") is True:
        flags += ("its result lies in memory that its next call writes again: copy it before calling again",)
    if seen.get("compiled") is True:
        kinds.append("compile")
    elif share is not None and share >= OWN_SHARE:
        kinds.append("custom")
    if operators and (share is None or share < OWN_SHARE) and "compile" not in kinds:
        kinds.append("library")
    if "simplify-algebra" in skills or "remove-dead-code" in skills:
        kinds.append("algebraic")
    return Labels(kinds=tuple(kinds), own_share_ratio=share, operators=operators, flags=flags)


def launch_bound(seen: Json) -> tuple[str, ...]:
    """A flag with both times where the device idles for most of a call."""
    device_us, call_us = replies.number(seen.get("device_us")), replies.number(seen.get("call_us"))
    if not device_us or not call_us or device_us >= BUSY_SHARE * call_us:
        return ()
    return (f"launch-bound: {device_us:.0f} us of kernels in a call of {call_us:.0f} us",)


def is_allowed(labels: Labels, allow: frozenset[str]) -> bool:
    """Whether a policy lets it win: everything that it is must be allowed, and something must have been seen."""
    if not allow:
        return True
    decisive = set(labels.kinds) - HARMLESS
    return bool(decisive) and decisive <= allow
