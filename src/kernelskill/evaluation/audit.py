"""What the judge adds to the reference worker's audit: what cannot be proven, and what cannot be timed."""

from __future__ import annotations

import torch

from kernelskill.evaluation import power
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.reference import ReferenceSide
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.evaluation.trial import Trial
from kernelskill.records import Finding, Weights, Workload

OVERHEAD_MS = 0.02
COPIES = 6
"""Copies of a call's inputs and outputs that a judgement holds at a time, about."""


def known_findings(workload: Workload, bytes_free: int, weights: Weights) -> tuple[Finding, ...]:
    """Whether a call fits into memory as often as it must, and whether weights that are to be frozen stay."""
    if weights == "frozen" and workload.updated_state:
        changed = ", ".join(sorted(workload.updated_state)[:3])
        message = f"forward rewrites {changed}: nothing is frozen here; use --weights live"
        return (Finding(code="not-frozen", message=message, fatal=True),)
    moved = sum(spec.nbytes for spec in (*workload.inputs, *workload.outputs))
    if moved * COPIES <= bytes_free:
        return ()
    message = f"one call moves {moved / 1e9:.1f} GB, {bytes_free / 1e9:.1f} GB are free: use smaller inputs"
    return (Finding(code="too-big", message=message, fatal=True),)


def time_findings(workload: Workload) -> tuple[Finding, ...]:
    """Whether a call is long enough to be more than the cost of calling."""
    if workload.eager_ms >= OVERHEAD_MS:
        return ()
    message = f"one call takes {1e3 * workload.eager_ms:.0f} us: mostly the cost of calling"
    return (Finding(code="overhead-bound", message=message, fatal=False),)


def power_findings(side: ReferenceSide, trial: Trial) -> tuple[Finding, ...]:
    """Whether the gates would refuse zeros, the mean, and the result of other inputs, for every output."""
    calls = min(trial.draws("task"), side.layout.count)
    try:
        eager, twin = side.due(side.draw(trial.seeds(calls)), calls)
        other = side.eager(side.draw(trial.seeds(calls)), calls)
    except StockFailure as failure:
        if not side.worker.alive:
            side.revive(failure)
        message = (
            f"the reference cannot be run in float64, so nothing can be measured against: {failure.line}"
        )
        return (Finding(code="no-twin", message=message, fatal=True),)
    weak: dict[int, str] = {}
    constant: set[int] = set()
    for place in range(len(trial.workload.outputs)):
        mine, others = [row[place] for row in eager], [row[place] for row in other]
        if not mine[0].numel():
            continue
        pool = Pool([], mine, [row[place] for row in twin])
        passes = power.has_power(pool, others, trial.allowed(mine[0].dtype))
        if passes:
            weak[place] = passes
        if all(torch.equal(a, b) for a, b in zip(mine, others, strict=True)):
            constant.add(place)
    return _weak_findings(weak, constant, len(trial.workload.outputs))


def _weak_findings(weak: dict[int, str], constant: set[int], outputs: int) -> tuple[Finding, ...]:
    """Fatal, unless the outputs that prove nothing are true constants beside outputs that prove something."""
    found = []
    for place, passes in weak.items():
        fatal = place not in constant or len(weak) == outputs
        message = f"output[{place}]: the tolerance would let {passes} pass"
        message += ": nothing can be proven on these inputs" if fatal else "; it is the same for all inputs"
        found.append(Finding(code="powerless", message=message, fatal=fatal))
    return tuple(found)
