"""How long a worker waited for a processor that somebody else had, as the kernel counts it.

Two processes that do the same may differ twofold when the machine is busy, for as long as they live: the threads of
one share a processor, those of the other don't. Pairing and shuffling do not average that out, so it is measured.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kernelskill.evaluation import processes

IDLE = 0.02
"""Waiting, as a share of the processor time, that a quiet machine has too."""
BUSY = 0.1
"""Waiting from which a round counts as disturbed."""


def waited_seconds(root: int) -> float:
    """Seconds that the threads of a tree were ready to run and did not run; 0 where the kernel doesn't count them."""
    total = 0
    for pid in processes.living(root):
        for task in _tasks(pid):
            with suppress(OSError, ValueError, IndexError):  # gone meanwhile, or not counted here
                total += int(
                    Path(f"/proc/{pid}/task/{task}/schedstat").read_text(encoding="ascii").split()[1]
                )
    return total / 1e9


def _tasks(pid: int) -> list[str]:
    """Ids of the threads; none if the process is gone."""
    try:
        return [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


def slowdown(waited: float, computed: float) -> float:
    """By how much waiting may have lengthened a time, at most: 1 on a quiet machine, 2 if it waited half the time."""
    return 1 + max(0.0, waited / max(computed, 1e-6) - IDLE)
