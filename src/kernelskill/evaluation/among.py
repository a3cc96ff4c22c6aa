"""Hidden families among the calls that are timed.

Whoever knows which calls are timed (by their number, by how many come together, by what the stack says) could be right
in all others and take a short cut there, if timed calls were all on the task's own inputs. So one of each burst is on
inputs of a hidden family, the same for all arms, at a place drawn by lot.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from kernelskill.evaluation import correctness
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.families import FAMILIES
from kernelskill.evaluation.reference import FINITE

if TYPE_CHECKING:
    from kernelskill.evaluation.trial import Trial

FEW = 4
"""Calls of a burst below which not every burst holds one, as most of its time would be on such inputs."""
FEW_OF, SINGLE_OF = 2, 8
"""Then one burst in so many does; where a burst is one huge call, whose float64 twin takes longest, one in more."""


class Among:
    """Lays hidden families among the timed calls of one candidate, each in turn in an order drawn by lot."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._rng = random.Random(0)
        self._known: list[str] | None = None
        self._left: list[str] = []
        self._laid: dict[int, str] = {}
        """Call of the burst that was drawn last -> its family."""

    def draw(self, count: int) -> torch.Tensor:
        """Fresh inputs of a timed burst.

        Raises:
            StockFailure: the reference failed.
        """
        trial, reference = self._trial, self._trial.reference
        batch = reference.draw(trial.seeds(count))
        self._laid = self._chosen(count)
        for call, family in self._laid.items():
            _inputs(batch, reference.layout.step, call).copy_(reference.draw(trial.seeds(1), family))
        return batch

    def checked(
        self, batch: torch.Tensor, mine: Sequence[list[torch.Tensor]], eager: Sequence[list[torch.Tensor]]
    ) -> list[int]:
        """Hold calls of the last burst to the gates of their families; those that are on the task's own inputs.

        Args:
            batch: its input bytes.
            mine: the candidate's results, per call.
            eager: eager's.

        Raises:
            Wrong: a gate failed.
            StockFailure: the twin failed.
        """
        trial, reference = self._trial, self._trial.reference
        for call, family in self._laid.items():
            reference.device.trim()
            twin = reference.twin(_inputs(batch, reference.layout.step, call), 1)[0]
            for place, rows in enumerate(zip(mine[call], eager[call], twin, strict=True)):
                # Single positions may be near ties by luck; families are compared in many calls elsewhere.
                if not trial.is_position(place, rows[1]) and correctness.finite_share([rows[2]]) >= FINITE:
                    pool = Pool(*([item] for item in rows))
                    trial.with_typical(place, pool)
                    trial.must_pass(place, pool, trial.allowed(rows[1].dtype, family=family), family)
        return [call for call in range(len(mine)) if call not in self._laid]

    def _chosen(self, count: int) -> dict[int, str]:
        if self._known is None:
            # Where calls leave a state behind, families would change what the task's own calls start from.
            hidden = [] if self._trial.workload.updated_state else self._trial.hidden()
            self._known = [family for family in hidden if family in FAMILIES]
            self._rng.seed(self._trial.secret.next())
        bursts = 1 if count >= FEW else SINGLE_OF if self._trial.reference.layout.count == 1 else FEW_OF
        if not self._known or self._rng.randrange(bursts):
            return {}
        return {self._rng.randrange(count): self._next(self._known)}

    def _next(self, known: list[str]) -> str:
        if not self._left:
            self._left = self._rng.sample(known, len(known))
        return self._left.pop()


def picked(batch: torch.Tensor, step: int, calls: Sequence[int]) -> torch.Tensor:
    """Input bytes of some calls of a batch, one after the other."""
    return torch.cat([_inputs(batch, step, call) for call in calls])


def _inputs(batch: torch.Tensor, step: int, call: int) -> torch.Tensor:
    return batch[call * step : (call + 1) * step]
