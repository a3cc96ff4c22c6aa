"""NaN and infinities among the inputs: what a candidate makes of them is told, and decides nothing.

Eager's own answer to them is often an accident of its formula (NaN for -inf * 0, a maximum that loses NaN), which an
honest kernel need not share; where the task's own inputs hold them, the gates compare every place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernelskill.evaluation import families
from kernelskill.evaluation.correctness import finite_share
from kernelskill.evaluation.errors_summed import stray
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.evaluation.verdict import WorkerFailure

if TYPE_CHECKING:
    from kernelskill.evaluation.trial import Trial

KINDS = (float("nan"), float("inf"), float("-inf"))
ONE_IN = 4096
"""About one element in so many is NaN or infinite."""
MOST_SHARE = 0.5
"""Share of eager's results that may be non-finite; beyond, they say nothing about the rest."""


def told(trial: Trial, seat: Seat) -> tuple[str, ...]:
    """A line if a candidate's NaN and infinities stand elsewhere than eager's.

    Raises:
        WorkerFailure: such inputs end the candidate.
        StockFailure: the reference is lost for good.
    """
    reference = trial.reference
    batch = reference.draw(trial.seeds(1))
    leaves = reference.layout.views(batch, 0)
    places = families.changeable(leaves)
    if not places:
        return ()
    rng = reference.device.generator(trial.secret.next() >> 2)
    for place in places:
        _spoil(leaves[place], rng)
    try:
        eager, twin = (rows[0] for rows in reference.due(batch, 1))
    except StockFailure as failure:
        if not reference.worker.alive:
            reference.revive(failure)
        return ()
    numbers = [place for place, item in enumerate(eager) if item.is_floating_point() and item.numel()]
    if not numbers or any(finite_share([eager[k]]) < MOST_SHARE for k in numbers):
        return ()
    seat.warm()
    seat.give_state(reference.initial)
    try:
        burst = seat.burst(batch, calls=1)
    except WorkerFailure as failure:
        if not seat.worker.alive:
            raise
        return (f"NaN or infinities among the inputs: {failure.line}",)
    mine = seat.outputs.views(burst.outputs, 0)
    wrong = sum(stray(mine[k], eager[k], twin[k]) for k in numbers)
    total = sum(eager[k].numel() for k in numbers)
    if not wrong:
        return ()
    return (f"NaN or infinities among the inputs: {wrong} of {total} elements are not as eager's",)


def _spoil(leaf: torch.Tensor, rng: torch.Generator) -> None:
    stored = families.stored(leaf)
    count = max(len(KINDS), stored.numel() // ONE_IN)
    where = torch.randint(0, stored.numel(), (count,), generator=rng, device=rng.device)
    mask = torch.zeros(stored.numel(), dtype=torch.int8, device=stored.device)
    mask[where] = (torch.arange(count, device=stored.device) % len(KINDS) + 1).to(torch.int8)
    mask = mask.view(stored.shape)
    for number, kind in enumerate(KINDS, start=1):
        stored.masked_fill_(mask == number, kind)
