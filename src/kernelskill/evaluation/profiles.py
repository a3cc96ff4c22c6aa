"""What is told about a candidate without judging it: times of its steps, and counters of its kernels."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.stock import Stock
from kernelskill.records import Candidate, Json

REPEATS = 9
PATIENCE = 4
"""Times the longest burst that a profile may take."""


def step_times(stock: Stock, candidate: Candidate, kernels: Sequence[str]) -> Json:
    """Raw step times from a worker of its own; {"error": ...} where it fails."""
    try:
        seat = stock.table.candidate(candidate)
    except WorkerFailure as failure:
        return {"error": failure.line}
    try:
        side = stock.side
        seat.give_state(side.initial)
        seat.burst(side.draw([secrets.randbits(62) for _ in range(seat.inputs.count)]))
        with stock.table.device.alone():
            return seat.worker.call(
                "profile", timeout_s=PATIENCE * seat.seconds, kernels=list(kernels), repeats=REPEATS
            )
    except WorkerFailure as failure:
        return {"error": failure.line}
    finally:
        seat.close()


def counters(stock: Stock, candidate: Candidate, metrics: Sequence[str]) -> Json:
    """What the hardware counted during one call, as its own tool printed it."""
    if stock.table.device.name != "cuda":
        return {"log": "", "error": "counters are read on a GPU only"}
    from kernelskill.evaluation.cuda.counters import count

    return count(stock.table, candidate, metrics)
