"""A tree of processes, seen through /proc by one who does not trust it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

STOP_S = 2.0
CPU_CLOCK_SCHED = 2
TICKS = os.sysconf("SC_CLK_TCK")


def living(root: int) -> list[int]:
    """`root` and every process under it that is not a zombie, parents first."""
    found: list[int] = []
    queue = [root]
    while queue:
        pid = queue.pop(0)
        if _state(f"/proc/{pid}/stat") not in ("", "Z", "X"):
            found.append(pid)
        queue += _children(pid)
    return found


def signal_all(root: int, number: signal.Signals) -> None:
    """Send a signal to the whole tree."""
    for pid in living(root):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stop(root: int) -> list[int] | None:
    """Stop the whole tree; its processes once no thread of it runs any more, None where some would not stop."""
    deadline = time.monotonic() + STOP_S
    before: list[int] = []
    while time.monotonic() < deadline:
        pids = living(root)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        if pids == before and all(_stopped(pid) for pid in pids):
            return pids
        before = pids
    return None


def cpu_seconds(root: int) -> float:
    """Processor seconds of the tree, including children that ended and were waited for."""
    total = 0.0
    for pid in living(root):
        with suppress(OSError, ValueError, IndexError):
            total += time.clock_gettime(~pid << 3 | CPU_CLOCK_SCHED)
            fields = _stat(f"/proc/{pid}/stat")
            total += (int(fields[13]) + int(fields[14])) / TICKS
    return total


def _stopped(pid: int) -> bool:
    return all(_state(f"/proc/{pid}/task/{task}/stat") in ("T", "t", "Z", "X", "") for task in _tasks(pid))


def _tasks(pid: int) -> list[str]:
    """Ids of the threads; none if the process is gone."""
    try:
        with os.scandir(f"/proc/{pid}/task") as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in _tasks(pid):
        found += [int(child) for child in _read(f"/proc/{pid}/task/{task}/children").split()]
    return found


def _state(path: str) -> str:
    """One letter, "" if the process is gone."""
    fields = _stat(path)
    return fields[0] if fields else ""


def _stat(path: str) -> list[str]:
    """The fields after the command's name, which may hold anything."""
    text = _read(path).decode(errors="replace")
    return text[text.rfind(")") + 2 :].split() if text else []


def _read(path: str) -> bytes:
    """A small file of /proc; nothing if it is gone. Called tens of times around each burst, hence the plain calls."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    except OSError:
        return b""
    finally:
        os.close(fd)
