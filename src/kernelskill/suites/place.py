"""A process that does one task after another: importing torch and starting servers is paid for once.

It is told a folder a line and answers with a byte. What it cannot survive ends it, and the next task gets a new one.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

from kernelskill.suites.cores import confined_to


class Place:
    """Start it from a thread that lives as long as it does.

    Args:
        home: folder that the folders of its tasks lie in, or that is the folder of its only one.
        log: file that gets what it says before its first task.
        gpu: index of the GPU to use; None where there is none, or the process sees only the right one.
        cores: that it and all of its workers may use; empty allows all.
    """

    def __init__(self, home: Path, log: Path, gpu: int | None, cores: tuple[int, ...] = ()) -> None:
        self.cores = cores
        self._answers, theirs = socket.socketpair()
        words = [
            sys.executable,
            "-m",
            "kernelskill.suites.child",
            str(home),
            str(os.getpid()),
            str(theirs.fileno()),
        ]
        confined = confined_to(cores) if cores else nullcontext()
        with theirs, log.open("ab") as said, confined:
            self._process = subprocess.Popen(
                [*words, *([] if gpu is None else [str(gpu)])],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    @property
    def fd(self) -> int:
        """Readable once the task that it was given has ended, or it has."""
        return self._answers.fileno()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be given a task."""
        return self._process.poll() is None

    @property
    def answered(self) -> bool:
        """Whether the task that it was given has ended, or it has."""
        return bool(select.select([self._answers], [], [], 0)[0])

    def begin(self, folder: Path) -> None:
        """Have it do the job that lies in a folder; one that is dead has ended at once."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answers.sendall(f"{folder}\n".encode())

    def settle(self) -> int | None:
        """Wait for its answer. None: it can be given another task; else its exit code."""
        with suppress(ConnectionResetError):
            if self._answers.recv(1):
                return None
        return self._process.wait()

    def end(self) -> None:
        """End it; its workers end with it."""
        if (
            self._process.returncode is None
        ):  # else its id may be another's by now; its workers have ended with it
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._answers.close()
