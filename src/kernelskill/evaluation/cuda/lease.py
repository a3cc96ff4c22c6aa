"""A GPU among the judges of one machine: many may compute on it side by side, whoever times has it to himself.

Two locks. All wait in line at the first to get the second, many together or one alone; so whoever wants to be alone
waits only for those who are inside, and nobody passes him.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal

Hold = Literal["nothing", "shared", "alone"]
_WAYS = {"shared": fcntl.LOCK_SH, "alone": fcntl.LOCK_EX}
HELD_S: defaultdict[str, float] = defaultdict(float)
"""Seconds that this process has held GPUs so far, by how, and what it has "waited" for them."""


class Lease:
    """Locks by GPU. What is held may be entered again by its holder.

    Args:
        uuid: of the GPU.
        waiting: told once when others have it.
    """

    def __init__(self, uuid: str, waiting: Callable[[str], None] = lambda _: None) -> None:
        self._path = folder() / f"kernelskill-{uuid}.lock"
        self._queue = folder() / f"kernelskill-{uuid}.queue"
        self._waiting = waiting
        self._fd = -1
        self._since = 0.0
        self.hold: Hold = "nothing"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Compute on it inside, beside others who do; nobody is timed meanwhile.

        Raises:
            OSError: the lock can be neither made nor opened.
        """
        with self._held("shared" if self.hold == "nothing" else self.hold):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have it to oneself inside.

        Raises:
            OSError: the lock can be neither made nor opened.
        """
        with self._held("alone"):
            yield

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let others have it inside, where its holder neither times nor computes."""
        with self._held("nothing"):
            yield

    def give_way(self) -> None:
        """Let whoever waits to be alone go first, if this is not it."""
        if self.hold == "shared" and not self._is_free():
            with self._held("nothing"):
                pass

    @contextmanager
    def _held(self, wanted: Hold) -> Iterator[None]:
        before = self.hold
        self._switch(wanted)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, wanted: Hold) -> None:
        if wanted == self.hold:
            return
        if self.hold != "nothing":
            os.close(self._fd)  # an open file of its own holds each lock
            self._count(self.hold)
            self.hold = "nothing"
        if wanted != "nothing":
            self._since = time.monotonic()
            self._fd = self._taken(wanted)
            self._count("waited")
            self.hold = wanted

    def _count(self, what: str) -> None:
        now = time.monotonic()
        HELD_S[what] += now - self._since
        self._since = now

    def _taken(self, wanted: Hold) -> int:
        queue = _opened(self._queue)
        try:
            waited = self._lock(queue, fcntl.LOCK_EX)
            inside = _opened(self._path)
            try:
                self._lock(inside, _WAYS[wanted], told=waited)
            except BaseException:  # an interrupted wait must not leave a lock behind
                os.close(inside)
                raise
            return inside
        finally:
            os.close(queue)

    def _lock(self, fd: int, way: int, *, told: bool = False) -> bool:
        """Whether it had to be waited for."""
        try:
            fcntl.flock(fd, way | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                self._waiting("waiting for the GPU: others compute or are timed on it")
            fcntl.flock(fd, way)
            return True
        return False

    def _is_free(self) -> bool:
        """Whether nobody stands in line."""
        fd = _opened(self._queue)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True


def uuid_of(index: int) -> str:
    """Name of a GPU that is the same for all processes, "GPU-...", from how torch counts it here."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(index).uuid}".replace("GPU-GPU-", "GPU-")


def alone_on(index: int) -> AbstractContextManager[None]:
    """Have a GPU to oneself inside; for who holds nothing of it yet.

    Args:
        index: as torch counts it.

    Raises:
        OSError: the lock can be neither made nor opened.
    """
    return Lease(uuid_of(index)).alone()


def folder() -> Path:
    """Where locks lie: one place for all users of the machine."""
    return Path("/tmp")


def _opened(path: Path) -> int:
    """The lock's file, made by whoever comes first; to lock it, reading is enough."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o644)
