"""Skills as arms of a bandit: what paid in this run under the same bottleneck comes first, what is new gets its turn.

Upper confidence bounds (UCB1, Auer et al. 2002) over the logarithm of the speedup, with what the gate expects as one
observation made beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelskill.records import Attempt, GateDecision, Retrieval, Status
from kernelskill.search.greedy import GreedyStrategy
from kernelskill.search.verified import BASE

EXPLORATION = 0.1
"""Width of the bound in units of log-speedup: a gain of about a tenth is worth looking for."""
LOSS = -0.05
"""Reward of an attempt that failed: its time is lost, nothing else."""


class BanditStrategy(GreedyStrategy):
    """Implements `protocols.Strategy`: the greedy base, skills in the order of their upper confidence bounds."""

    def order(self, base: Attempt, retrieval: Retrieval, attempts: Sequence[Attempt]) -> Retrieval:
        """The admitted decisions by upper confidence bound, refusals after them."""
        del base
        context = retrieval.bottlenecks[0] if retrieval.bottlenecks else ""
        rewards: dict[str, list[float]] = {}
        for attempt in attempts:
            if attempt.plan.base_id and attempt.plan.bottleneck == context:
                rewards.setdefault(attempt.plan.skill, []).append(_reward(attempt))
        total = sum(map(len, rewards.values()))

        def bound(decision: GateDecision) -> float:
            known = [math.log(decision.expected_speedup or 1.0), *rewards.get(decision.skill, ())]
            width = EXPLORATION * math.sqrt(2 * math.log(1 + total) / len(known))
            return float(sum(known) / len(known) + width)

        admitted = sorted((item for item in retrieval.decisions if item.admitted), key=bound, reverse=True)
        refused = [item for item in retrieval.decisions if not item.admitted]
        return retrieval.model_copy(update={"decisions": (*admitted, *refused)})


def _reward(attempt: Attempt) -> float:
    evaluation = attempt.evaluation
    if evaluation is None or evaluation.status is not Status.PASSED:
        return LOSS
    speedup = evaluation.speedup(BASE)
    return math.log(speedup.value) if speedup else 0.0
