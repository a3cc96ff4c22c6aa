"""The judge on a GPU."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from kernelskill.evaluation.cuda.confine import sandbox_for
from kernelskill.evaluation.cuda.device import Cuda
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.records import Task

SYSTEM_CACHE = Path("/var/cache/kernelskill")


def cuda_judge(
    task: Task,
    *,
    index: int = 0,
    sandbox: Sandbox | None = None,
    cache_dir: Path | None = None,
    progress: Callable[[str], None] | None = None,
    **settings: Any,
) -> Judge:
    """A judge whose workers compute on one GPU.

    Args:
        task: what candidates are judged against.
        index: of the GPU, as torch counts them.
        sandbox: default: the strongest in which a worker still computes there (`confine.sandbox_for`).
        cache_dir: folder for compiled artefacts of the stock arms. Where those run as a user of nobody's who cannot
            reach it (root's home is closed), `SYSTEM_CACHE` is taken.
        progress: told in a few words what goes on.
        settings: further arguments of `Judge` (threads, allow, tolerance, promotion_sets, patience_s, floor_ms).

    Raises:
        WorkerError: there is no such GPU.
    """
    device = Cuda(index, progress or (lambda _: None))
    confined = sandbox or sandbox_for(device.uuid)
    cache = cache_dir or platformdirs.user_cache_path("kernelskill")
    if confined.own_user and not is_reachable(cache):
        cache = SYSTEM_CACHE
    return Judge(task, sandbox=confined, progress=progress, device=device, cache_dir=cache, **settings)


def is_reachable(path: Path) -> bool:
    """Whether any user may pass through every folder on the way to a path, as far as it exists."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents) if folder.exists())
