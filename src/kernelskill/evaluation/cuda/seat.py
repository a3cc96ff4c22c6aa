"""A burst on the GPU, and how its clock is kept.

The GPU is brought to its working clocks first. As on the CPU the judge copies the batch in after the clock has
started. The clock stops only when the outputs lie in the judge's own memory: a kernel that still runs when the worker
answers is either missing from that copy, or in the time. Processor time says nothing here and is not asked for. No
mapping of a GPU's memory is read-only, so inputs are read again after the clock has stopped.
"""

from __future__ import annotations

import time
from statistics import mean

import torch

from kernelskill.evaluation import replies
from kernelskill.evaluation.cuda.device import Cuda
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.seat import Burst, Seat
from kernelskill.records import Status

PIECE = 1 << 30
"""Bytes compared together."""


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two uint8 tensors are equal, without temporaries of their size; they may lie on different devices."""
    pairs = zip(left.split(PIECE), right.split(PIECE), strict=True)
    return all(torch.equal(mine.to(theirs.device), theirs) for mine, theirs in pairs)


class CudaSeat(Seat):
    """A worker with slots on the GPU."""

    def _timed(self, batch: torch.Tensor, command: str, count: int, limit: float, *, rest: bool) -> Burst:
        device = self.device
        assert isinstance(device, Cuda)
        used = count * self.outputs.step
        outputs = torch.empty(used, dtype=torch.uint8, device="cuda")
        device.rouse()
        device.settle()
        began = time.perf_counter()
        self._input[: len(batch)].copy_(batch)
        device.chill(len(batch) + used)
        device.settle()
        reply = self._asked(command, count, limit)
        outputs.copy_(self._output[:used])
        device.settle()
        wall = time.perf_counter() - began
        clock = device.clocks.read()
        if self._watched:
            self.worker.freeze()
            if not rest:
                self.wake()
        if not self._trusted and not same_bytes(self._input[: len(batch)], batch):
            raise WorkerFailure(
                Status.INTEGRITY,
                "forward writes to its inputs, which are the caller's",
                "work on a copy, or write the result to a tensor of its own",
            )
        times = replies.times_ms(reply, count) if command != "run64" else [1e3 * wall / count]
        return Burst(
            wall_ms=1e3 * wall / count,
            worker_ms=mean(times),
            outputs=outputs,
            flags=replies.flags(reply),
            clock_mhz=clock.sm_mhz,
            throttled=clock.throttled,
        )
