"""What a candidate is, from what ran in a call of it."""

from __future__ import annotations

from collections.abc import Iterable

from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.seat import Seat
from kernelskill.records import Json, Labels
from kernelskill.records.evaluation import Label

OWN_SHARE = 0.5
"""Share of the time outside library operators from which a candidate counts as its own."""


def observe(seat: Seat, flags: Iterable[str], skills: tuple[str, ...]) -> Labels:
    """Labels of a candidate that was judged already (what it does now decides nothing any more)."""
    try:
        seen = seat.worker.call("operators", timeout_s=seat.seconds)
    except WorkerFailure as failure:
        return Labels(flags=(*flags, f"could not be observed: {failure.detail[:100]}"))
    return labels_of(seen, tuple(flags), skills)


def labels_of(seen: Json, flags: tuple[str, ...], skills: tuple[str, ...]) -> Labels:
    """Labels from the worker's observation."""
    share = seen.get("own_share_ratio")
    operators = tuple(str(row["op"])[:80] for row in seen.get("operators", [])[:24])
    kinds: list[Label] = []
    if seen.get("compiled"):
        kinds.append("compile")
    elif share is not None and share >= OWN_SHARE:
        kinds.append("custom")
    if operators and (share is None or share < OWN_SHARE) and "compile" not in kinds:
        kinds.append("library")
    if "simplify-algebra" in skills or "remove-dead-code" in skills:
        kinds.append("algebraic")
    return Labels(
        kinds=tuple(kinds),
        own_share_ratio=float(share) if isinstance(share, int | float) else None,
        operators=operators,
        flags=flags,
    )
