"""A GPU to oneself, among the judges of one machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
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
        self._path = folder() / f"{uuid}.lock"
        self._waiting = waiting
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for it, and have it inside.

        Raises:
            OSError: the lock's folder cannot be written.
        """
        if self._depth:
            yield
            return
        fd = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._waiting("waiting for the GPU: another run times on it")
                fcntl.flock(fd, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
        finally:
            os.close(fd)


def folder() -> Path:
    """Where locks lie: the user's runtime folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = (
        Path(runtime) / "kernelskill"
        if runtime
        else Path(tempfile.gettempdir()) / f"kernelskill-{os.getuid()}"
    )
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    return base
