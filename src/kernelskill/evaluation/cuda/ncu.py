"""Where ncu is, and how it is told to count. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/nsight-compute*", "/opt/nvidia/nsight-compute/*")
"""Where installers put it, beside the PATH."""
MOST_LAUNCHES = 32
"""Launches of one call that are counted; each is replayed once for every group of counters."""
LOCK = "nsight-compute-lock"
"""File in the temporary folder by which ncu serialises kernels; who makes it first must let others write it."""


def find_ncu() -> Path | None:
    """The newest ncu of this machine."""
    on_path = shutil.which("ncu")
    if on_path:
        return Path(on_path)
    home = os.environ.get("CUDA_HOME")
    patterns = ([f"{home}/bin"] if home else []) + list(PLACES)
    found = [folder / "ncu" for pattern in patterns for folder in Path("/").glob(pattern.lstrip("/"))]
    usable = [path for path in found if os.access(path, os.X_OK) and path.is_file()]
    return max(usable, key=_version, default=None)


def install_folders(ncu: Path) -> tuple[Path, ...]:
    """Folders that hold what ncu loads into the process that it watches."""
    named = [ncu.parent, ncu.resolve().parent, Path("/opt/nvidia"), Path("/usr/local/cuda").resolve()]
    return tuple(dict.fromkeys(folder for folder in named if folder.is_dir()))


def command(ncu: Path, metrics: Sequence[str], log: Path) -> list[str]:
    """The words before the program that is watched.

    Clocks are left as they are (they belong to the machine), caches are emptied before each replay, and only what lies
    between `cudaProfilerStart` and `cudaProfilerStop` counts.

    Args:
        ncu: the program.
        metrics: what to count.
        log: file for all that ncu prints.
    """
    return [
        str(ncu),
        "--config-file", "off",
        "--clock-control", "none",
        "--cache-control", "all",
        "--replay-mode", "kernel",
        "--target-processes", "application-only",
        "--profile-from-start", "off",
        "--check-exit-code", "no",
        "--launch-count", str(MOST_LAUNCHES),
        "--csv",
        "--page", "raw",
        "--print-units", "base",
        "--log-file", str(log),
        "--metrics", ",".join(metrics),
    ]  # fmt: skip


def _version(path: Path) -> tuple[int, ...]:
    """Numbers in the path, so that 2025.3.1 comes after 2024.1."""
    return tuple(int(number) for number in re.findall(r"\d+", str(path.resolve())))
