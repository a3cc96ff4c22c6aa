"""Which cores of the machine a task gets, so that one that compiles cannot slow the launches of one that is timed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

TOPOLOGY = Path("/sys/devices/system/cpu")


class Cores:
    """Hands out shares of so many cores: disjoint while there are enough, else those that the fewest tasks have.

    Args:
        cores: numbers of the cores, neighbours side by side.
        each: cores of a share.
    """

    def __init__(self, cores: Sequence[int], each: int) -> None:
        each = max(1, min(each, len(cores)))
        self._shares = [tuple(cores[at : at + each]) for at in range(0, len(cores) - each + 1, each)]
        self._taken: Counter[tuple[int, ...]] = Counter()

    def take(self) -> tuple[int, ...]:
        """A share for one task."""
        share = min(self._shares, key=lambda item: self._taken[item])
        self._taken[share] += 1
        return share

    def give_back(self, share: tuple[int, ...]) -> None:
        """The task has ended."""
        self._taken[share] -= 1

    @property
    def disjoint(self) -> int:
        """Tasks that can have cores of their own at a time."""
        return len(self._shares)


def own_cores() -> list[int]:
    """Cores that this process may use, hardware threads of one core side by side."""
    return sorted(os.sched_getaffinity(0), key=_place)


@contextmanager
def confined_to(cores: Sequence[int]) -> Iterator[None]:
    """Processes that this thread starts inside may use these cores only, and so may all that they start."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _place(core: int) -> tuple[int, int, int]:
    """Socket, physical core, number; machines that don't tell are taken in the order of the numbers."""
    told = []
    for name in ("physical_package_id", "core_id"):
        with suppress(OSError, ValueError):
            told.append(int((TOPOLOGY / f"cpu{core}/topology/{name}").read_text(encoding="ascii")))
    socket, physical = told if len(told) == 2 else (0, core)
    return socket, physical, core
