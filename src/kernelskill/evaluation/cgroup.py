"""Limits on a worker's whole tree, where this process may make control groups (version 1 or 2).

Limits of a process stop one that takes too much; a group stops many that take a little each.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "kernelskill-"
FILES = {
    1: {"memory": "memory.limit_in_bytes", "pids": "pids.max"},
    2: {"memory": "memory.max", "pids": "pids.max"},
}
"""Version -> controller -> the file that takes its limit."""
_numbers = itertools.count()


class Group:
    """The control groups of one worker: one for each controller with version 1, one in all with version 2.

    Args:
        pids: processes to take in; what they start later is inside as well. None: no group is made.
        memory_bytes: of the whole tree (0: no limit).
        processes: processes and threads of the whole tree.
    """

    def __init__(self, pids: Iterable[int], *, memory_bytes: int, processes: int) -> None:
        limits = {"memory": memory_bytes, "pids": processes}
        name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        self.folders: list[Path] = []
        """What was made; empty where this process may make none."""
        members = list(pids)
        if not members:
            return
        for controller, (version, parent) in available().items():
            folder = parent / name
            try:
                folder.mkdir(exist_ok=True)
                if folder not in self.folders:
                    self.folders.append(folder)
                if limits[controller]:
                    (folder / FILES[version][controller]).write_text(
                        str(limits[controller]), encoding="ascii"
                    )
                for pid in members:
                    (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
            except OSError:  # the tree has ended, or this controller takes no part here
                continue

    def close(self) -> None:
        """Remove the groups, which are empty once the tree is dead. May be called again."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()
        self.folders.clear()


@cache
def available() -> dict[str, tuple[int, Path]]:
    """Controller -> version and folder, for those in which this process can make groups; tried once.

    What processes that were killed left behind is removed.
    """
    found: dict[str, tuple[int, Path]] = {}
    for controller in FILES[1]:
        for version, folder in _candidates(controller):
            if _can_make(folder, FILES[version][controller]):
                _tidy(folder)
                found[controller] = (version, folder)
                break
    return found


def _candidates(controller: str) -> list[tuple[int, Path]]:
    """Where this process's group of a controller lies, by either version."""
    found = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    for line in lines:
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            found.append((1, ROOT / controller / path.lstrip("/")))
        elif not names:
            found += [(2, root / path.lstrip("/")) for root in (ROOT, ROOT / "unified")]
    return found


def _can_make(folder: Path, limit: str) -> bool:
    trial = folder / f"{PREFIX}{os.getpid()}-trial"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return (trial / limit).exists() and os.access(trial / limit, os.W_OK)
    finally:
        with suppress(OSError):
            trial.rmdir()


def _tidy(folder: Path) -> None:
    for left in folder.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with suppress(OSError):
                left.rmdir()
