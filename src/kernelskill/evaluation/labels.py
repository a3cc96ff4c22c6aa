"""What a candidate is, from what ran in a call of it.

The worker's own observation may be forged, so what decides between a kernel of one's own and the library's is found
by taking away: with every kernel of its own silenced, the judge compares the result. If it is still right, those
kernels were a decoy. What still runs without them, or how long a call lasts, tells their share. Where nothing could be
silenced, nothing is its own: other kernels, by whatever name, may be those of a compiler that comes with PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelskill.evaluation import contract, replies
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.evaluation.trial import PERTURBED, Trial
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import Json, Labels
from kernelskill.records.evaluation import Label

OWN_SHARE = 0.5
"""Share of the time outside library operators from which a candidate counts as its own."""
BUSY_SHARE = 0.5
"""Share of a call that a GPU must be busy for, or the call counts as launch-bound."""
OBSERVE_S = 30.0
"""Least time that watching may take: a GPU's tracer needs seconds to begin."""
WATCHED_RATIO, WATCHED_US = 1.5, 50.0
"""How much longer a call may take after the timing than in it: warm caches make it shorter, as a rule."""
LOOKS = 3
"""How often a call is watched at most, as long as it takes longer."""
MOST_OPERATORS = 24
HARMLESS = frozenset({"algebraic", "specialised", "frozen-weights"})
"""Labels that say something beside what ran; no policy excludes them."""
DECOY = "its own kernels decide nothing: without them the result is the same"


@dataclass(frozen=True)
class Knocked:
    """A call without the candidate's own kernels."""

    same: bool
    """Whether the result was right nevertheless."""
    call_us: float | None
    """What it lasted; None where it failed."""
    kernels_us: float | None = None
    """Time of the kernels that still ran on a GPU; None where nothing was seen."""


def observe(seat: Seat, flags: Iterable[str], skills: tuple[str, ...], trial: Trial) -> Labels:
    """Labels of a candidate that was judged already (what it does now decides nothing any more)."""
    flags = tuple(flags)
    try:
        seat.wake()
        seat.give_state(trial.reference.initial)
        seen, slower = _watched(seat, trial)
        frozen = ignores_weights(seat, trial)
    except WorkerFailure as failure:
        return Labels(flags=(*flags, f"could not be observed: {replies.text(failure.detail, 100)}"))
    flags += noted(seen)
    flags += (slower,) if slower else ()
    narrow = specialised(seat, trial) if seat.worker.alive else ""
    flags += (narrow,) if narrow else ()
    knocked = without_its_kernels(seat, trial) if seen.get("own_code") is True else None
    if slower:  # whatever ran here, it is not what was timed
        knocked, seen = Knocked(same=False, call_us=None), {**seen, "own_share_ratio": 0.0}
    found = labels_of(seen, flags, skills, knocked, specialised=bool(narrow))
    return found.model_copy(update={"kinds": (*found.kinds, "frozen-weights")}) if frozen else found


def _watched(seat: Seat, trial: Trial) -> tuple[Json, str]:
    """What the worker saw, and whether that was other work than what was timed: in the first look that was not slower.

    A call alone may also be slow because every result's memory comes from the kernel anew, which a burst ends. Whatever
    is accepted is what ran in that look.

    Raises:
        WorkerFailure: the candidate failed.
    """
    for _ in range(LOOKS):
        seen = seat.worker.call("operators", timeout_s=max(seat.seconds, OBSERVE_S))
        slower = watched_slower(seen, trial.ranked_ms)
        if not slower:
            break
        seat.warm()
        seat.burst(trial.reference.draw(trial.seeds(seat.inputs.count)))
    return seen, slower


def watched_slower(seen: Json, ranked_ms: float | None) -> str:
    """What should be told where a call takes longer once nothing is timed any more; "" if it does not.

    A candidate may count its calls, run the library's code while it is timed, and its own kernel afterwards.
    """
    took = replies.number(seen.get("device_us")) or replies.number(seen.get("call_us"))
    if took is None or ranked_ms is None or took <= WATCHED_RATIO * 1e3 * ranked_ms + WATCHED_US:
        return ""
    return (
        f"a call takes {took:.0f} us once it is not timed, {1e3 * ranked_ms:.0f} us while it is: other work"
    )


def without_its_kernels(seat: Seat, trial: Trial) -> Knocked | None:
    """Silence its own kernels, and compare; None if none could be. The worker is of no use afterwards."""
    if not seat.worker.alive:  # what was asked before has cost its life
        return Knocked(same=False, call_us=None)
    reference = trial.reference
    batch = reference.draw(trial.seeds(1))
    due = reference.eager(batch, 1)[0]
    try:
        seat.give_state(reference.initial)
        burst = seat.burst(batch, command="knocked", calls=1)
    except WorkerFailure:  # it cannot do without them
        return Knocked(same=False, call_us=None)
    if not burst.flags:
        return None
    mine = seat.outputs.views(burst.outputs, 0)
    left = _kernels_left(seat) if seat.device.name == "cuda" else None
    return Knocked(contract.alike(trial, mine, due), 1e3 * burst.worker_ms, left)


def _kernels_left(seat: Seat) -> float | None:
    """Time of the kernels of a call that are not silenced."""
    try:
        seen = seat.worker.call("operators", timeout_s=max(seat.seconds, OBSERVE_S))
    except WorkerFailure:
        return None
    return replies.number(seen.get("kernels_us"))


def ignores_weights(seat: Seat, trial: Trial) -> bool:
    """Whether changed parameters are not noticed; asked only where they are frozen, and that is allowed.

    Raises:
        WorkerFailure: the candidate failed.
    """
    initial = trial.reference.initial
    if not (trial.frozen and initial):
        return False
    errors = list(trial.errors)
    try:
        trial.hidden_family(seat, PERTURBED)
    except Wrong as wrong:
        return "frozen-weights" in wrong.labels.kinds
    finally:
        trial.errors = errors
        trial.reference.give_state(initial)
        if seat.worker.alive:
            seat.give_state(initial)
    return False


def specialised(seat: Seat, trial: Trial) -> str:
    """What a candidate makes of one row less, where the reference takes that; "" if the same."""
    reference = trial.reference
    batch = reference.draw(trial.seeds(1))
    try:
        due = reference.smaller(batch)
    except StockFailure as failure:
        if not reference.worker.alive:
            reference.revive(failure)
        return ""
    try:
        burst = seat.burst(batch, command="smaller", calls=1)
    except WorkerFailure as failure:
        return f"only for the shapes of the task: {failure.line}"
    if burst.flags != due.flags:
        return "only for the shapes of the task: other shapes come out for one row less"
    views = [item.outputs.views(burst.outputs, 0) for item, burst in ((seat, burst), (seat, due))]
    for place, (one, other) in enumerate(zip(*views, strict=True)):
        used = _elements(burst.flags[place])
        rows = one.reshape(-1)[:used], other.reshape(-1)[:used]
        if not contract.alike_one(trial, place, *rows):
            return "only for the shapes of the task, and gives wrong numbers for others"
    return ""


def noted(seen: Json) -> tuple[str, ...]:
    """Flags on how the work was done."""
    found: tuple[str, ...] = ()
    if seen.get("static_output") is True:
        found += (contract.OVERWRITTEN,)
    for name, words in (("fallbacks", "a fallback ran: it caught"), ("linked", "links to libraries:")):
        listed = replies.names(seen, name)
        if listed:
            found += (f"{words} {', '.join(listed[:4])}",)
    return found


def labels_of(
    seen: Json,
    flags: tuple[str, ...],
    skills: tuple[str, ...],
    knocked: Knocked | None = None,
    *,
    specialised: bool = False,
) -> Labels:
    """Labels from the worker's observation, which may be forged, and from what the judge saw without its kernels."""
    listed = seen.get("operators")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    operators = tuple(replies.text(row.get("op"), replies.NAME_LENGTH) for row in rows[:MOST_OPERATORS])
    share = own_share(seen, knocked)
    kinds: list[Label] = ["graph"] if seen.get("graphed") is True else []
    flags += launch_bound(seen)
    flags += (DECOY,) if knocked is not None and knocked.same else ()
    linked = bool(replies.names(seen, "linked"))
    if seen.get("compiled") is True:
        kinds.append("compile")
    elif share >= OWN_SHARE and not linked:
        kinds.append("custom")
    if "compile" not in kinds and (linked or share < OWN_SHARE):
        kinds.append("library")
    if "simplify-algebra" in skills or "remove-dead-code" in skills:
        kinds.append("algebraic")
    if specialised:
        kinds.append("specialised")
    return Labels(kinds=tuple(kinds), own_share_ratio=share, operators=operators, flags=flags)


def own_share(seen: Json, knocked: Knocked | None) -> float:
    """Share of a call's work in kernels of its own, 0..1; 0 without any, or where the result does not need them.

    On a GPU by the kernels that ran, and by those that still run without its own, whichever says less; on the CPU by
    what a call is shorter without its own kernels, against what the library's operators take.
    """
    if knocked is None or knocked.same:
        return 0.0
    by_kernels = replies.number(seen.get("own_share_ratio"))
    if by_kernels is not None:
        return max(0.0, min(by_kernels, 1.0, _taken_away(seen, knocked)))
    call, library = replies.number(seen.get("call_us")), replies.number(seen.get("operators_us"))
    if call is None or library is None:
        return 0.0
    own = max(0.0, call - (library if knocked.call_us is None else knocked.call_us))
    return own / (own + library) if own + library > 0 else 1.0


def _taken_away(seen: Json, knocked: Knocked) -> float:
    """Share of the kernels' time that is gone without its own; 1 where it cannot do without them."""
    before = replies.number(seen.get("kernels_us"))
    if knocked.kernels_us is None or not before:
        return 1.0
    return 1.0 - knocked.kernels_us / before


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


def _elements(shape: str) -> int:
    """63 * 1024 of "63x1024"; shapes of the reference's, which the candidate's equal."""
    total = 1
    for size in shape.split("x") if shape else ():
        total *= int(size)
    return total
