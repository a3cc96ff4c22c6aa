"""What a process may leave on a machine: processes, shared memory, folders, control groups, descriptors, GPU memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelskill.evaluation import cgroup, processes
from kernelskill.evaluation.sandbox import CACHE_UID, UIDS

MARK = b"USER=worker\0LOGNAME=worker\0"
"""Part of the environment of every worker, and of what it starts."""
GPU_ROUNDING = 16 << 20
"""Memory that a driver may keep or give back on its own, bytes."""
Left = Mapping[str, frozenset[str] | int]
"""Kind -> names, or how many or how much."""


def held(own: int, *, gpu: bool = False) -> Left:
    """What is there now on account of a process: what it has, and workers without a parent.

    Args:
        own: process id of the judge.
        gpu: look at the GPU's memory as well.
    """
    temporary = Path(tempfile.gettempdir())
    groups = {folder for _, folder in cgroup.available().values()}
    found: dict[str, frozenset[str] | int] = {
        "processes": len(processes.living(own)),
        "orphans": frozenset(_orphans()),
        "shared memory files": _names(path for path in Path("/dev/shm").glob("*") if _by_worker(path)),
        "shared memory segments": _segments(),
        "temporary folders": _names(temporary.glob(f"kernelskill-*-{own}-*")),
        "control groups": _names(path for root in groups for path in root.glob(f"{cgroup.PREFIX}{own}-*")),
        "mounts": len(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()),
        "descriptors": len(list(Path(f"/proc/{own}/fd").iterdir())),
    }
    if gpu:
        import torch

        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        found["GPU memory (bytes)"] = total - free
    return found


def beyond(before: Left, after: Left) -> dict[str, list[str] | int]:
    """What is there now and was not before; empty if nothing was left behind."""
    found: dict[str, list[str] | int] = {}
    for kind, value in after.items():
        earlier, leeway = before[kind], GPU_ROUNDING if "bytes" in kind else 0
        if isinstance(value, frozenset) and isinstance(earlier, frozenset) and value - earlier:
            found[kind] = sorted(value - earlier)
        elif isinstance(value, int) and isinstance(earlier, int) and value - earlier > leeway:
            found[kind] = value - earlier
    return found


def _names(paths: Iterable[Path]) -> frozenset[str]:
    return frozenset(str(path) for path in paths)


def _segments() -> frozenset[str]:
    """Ids of System V shared memory."""
    try:
        lines = Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return frozenset()
    rows = [line.split() for line in lines]
    return frozenset(row[1] for row in rows if _is_workers(int(row[7])))


def _by_worker(path: Path) -> bool:
    try:
        return _is_workers(path.lstat().st_uid)
    except FileNotFoundError:
        return False


def _is_workers(uid: int) -> bool:
    """Whether a user id is that of workers: of nobody's where root judges, else the judge's own."""
    return uid in UIDS or uid == CACHE_UID if os.geteuid() == 0 else uid == os.geteuid()


def _orphans() -> Iterable[str]:
    """Processes of workers that init has taken over, since whoever watched them is gone."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            parent = int(text[text.rfind(")") + 2 :].split()[1])
            if parent == 1 and MARK in (entry / "environ").read_bytes():
                yield entry.name
        except (OSError, IndexError, ValueError):  # ended meanwhile, or another user's
            continue
