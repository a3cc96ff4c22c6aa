"""Sets of inputs that a reference is looked at with."""

from __future__ import annotations

from typing import Any

import torch

from .inputs import draw
from .session import Session

APART = 1000
"""From the seed of one set to that of the next."""
KEPT_BYTES = 64 << 20
"""Size of a set up to which it is kept once it is drawn."""


class Draws:
    """Sets of inputs by number; huge ones are drawn anew each time, so that none lies in memory meanwhile.

    Args:
        session: the worker's, with the reference loaded.
        seed: of set 0.
    """

    def __init__(self, session: Session, seed: int) -> None:
        self._session = session
        self._seed = seed
        self._kept: dict[int, tuple[list[torch.Tensor], Any]] = {}

    def drawn(self, number: int) -> tuple[list[torch.Tensor], Any]:
        """Tensor leaves, which must not be written to, and the tree of arguments.

        Raises:
            Failure: the task cannot give them.
        """
        known = self._kept.get(number)
        if known is None:
            known = draw(self._session, self._seed + APART * number)
            if sum(leaf.nbytes for leaf in known[0]) <= KEPT_BYTES:
                self._kept[number] = known
        return known

    def copies(self, number: int) -> list[torch.Tensor]:
        """Leaves to be had by a model, which may write to them.

        Raises:
            Failure: the task cannot give them.
        """
        return [leaf.clone() for leaf in self.drawn(number)[0]]
