"""A GPU to oneself, among the judges of one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Lease:
    """A lock by GPU; whoever holds it may time. May be entered again by its holder.

    Args:
        uuid: of the GPU.
        waiting: told once when somebody else has it.
    """

    def __init__(self, uuid: str, waiting: Callable[[str], None] = lambda _: None) -> None:
        self._path = folder() / f"kernelskill-{uuid}.lock"
        self._waiting = waiting
        self._depth = 0
        self._fd = -1

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for it, and have it inside.

        Raises:
            OSError: the lock can be neither made nor opened.
        """
        if self._depth:
            yield
            return
        self._fd = _opened(self._path)
        try:
            self._lock()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
        finally:
            os.close(self._fd)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let others have it inside, where its holder times nothing; who does not hold it has nothing to lend."""
        if not self._depth:
            yield
            return
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        depth, self._depth = self._depth, 0
        fd = self._fd
        try:
            yield
        finally:
            self._fd, self._depth = fd, depth
            self._lock()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._waiting("waiting for the GPU: another run times on it")
            fcntl.flock(self._fd, fcntl.LOCK_EX)


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
