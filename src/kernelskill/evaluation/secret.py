"""The seed that all inputs of one evaluation come from."""

from __future__ import annotations

import hashlib
import secrets


class Secret:
    """The seed of one evaluation: drawn after the candidate is loaded, told after it is dead.

    Args:
        seed: one that was told, to have the same inputs again.
    """

    def __init__(self, seed: bytes | None = None) -> None:
        self.seed = seed or secrets.token_bytes(32)
        self._count = 0

    @property
    def commitment(self) -> str:
        """sha256 of the seed, written down before it is used."""
        return hashlib.sha256(self.seed).hexdigest()

    def next(self) -> int:
        """The next input seed; none is ever used twice."""
        self._count += 1
        digest = hashlib.sha256(self.seed + self._count.to_bytes(8, "big")).digest()
        return int.from_bytes(digest[:8], "big") >> 1
