"""How idle the GPUs are while a suite runs, sampled by the driver's own tool; told as unknown where it isn't there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections import Counter

EVERY_MS = 1000
"""Often enough for a share over minutes, rare enough to disturb no timing."""


class GpuUsage:
    """Samples in the background until closed.

    Args:
        gpus: indices as torch counts them.
    """

    def __init__(self, gpus: tuple[int, ...]) -> None:
        self._samples: Counter[bool] = Counter()
        self._process: subprocess.Popen[str] | None = None
        if not gpus:
            return
        chosen = _as_the_driver_counts(gpus)
        if chosen is None:
            return
        words = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [*words, f"--id={','.join(chosen)}", f"--loop-ms={EVERY_MS}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            threading.Thread(target=self._read, daemon=True).start()

    @property
    def idle_ratio(self) -> float | None:
        """Share of the samples in which a GPU did nothing; None without a sample."""
        total = self._samples.total()
        return self._samples[True] / total if total else None

    def close(self) -> None:
        """Sample no more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.strip().isdecimal():
                    self._samples[int(line) == 0] += 1


def _as_the_driver_counts(gpus: tuple[int, ...]) -> list[str] | None:
    """Their names for the driver's tool, which knows nothing of CUDA_VISIBLE_DEVICES; None where one has none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(index) for index in gpus]
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return [names[index] for index in gpus] if max(gpus) < len(names) else None
