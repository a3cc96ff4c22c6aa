"""A burst on the GPU, and how its clock is kept.

Before a burst whose time counts the GPU is brought to its working clocks, and the worker to its own by a call on the
inputs of the burst before. As on the CPU the judge copies the batch in after the clock has
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

PAGE_BYTES = 2 << 20
"""Of device memory; the way to one that was not used lately is longer."""
PIECE = 1 << 27
"""Words compared together."""


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two uint8 tensors are equal, without temporaries of their size; they may lie on different devices."""
    pairs = zip(_words(left).split(PIECE), _words(right).split(PIECE), strict=True)
    return all(torch.equal(mine.to(theirs.device), theirs) for mine, theirs in pairs)


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Eight bytes at a time where they lie so: an eighth of the comparisons."""
    even = tensor.numel() % 8 == 0 and tensor.storage_offset() % 8 == 0
    return tensor.view(torch.int64) if even else tensor


class CudaSeat(Seat):
    """A worker with slots on the GPU."""

    def warm(self, command: str = "run") -> None:
        """A call of who is timed at times, on what lies in the slots from before."""
        self.wake()
        if self._warm and self._watched:
            self._asked(command, range(1), self.seconds)

    def ready(self, command: str = "run") -> None:
        """Work on both sides: a call on what lies in the slots from before, products on the GPU."""
        self.warm(command)
        self._input[::PAGE_BYTES].zero_()
        device = self.device
        assert isinstance(device, Cuda)
        device.rouse()

    def _timed(self, batch: torch.Tensor, command: str, order: range, limit: float, *, rest: bool) -> Burst:
        device = self.device
        assert isinstance(device, Cuda)
        count, used = len(order), len(order) * self.outputs.step
        inputs = self._inputs(order)
        outputs = torch.empty(used, dtype=torch.uint8, device="cuda")
        if self._watched:  # nothing of it computes while the inputs are revealed and until it is asked
            self.worker.freeze()
        device.settle()
        began = time.perf_counter()
        inputs.copy_(batch)
        device.chill(len(batch) + used)
        device.settle()
        self.wake()
        reply = self._asked(command, order, limit)
        outputs.copy_(self._outputs(order))
        device.settle()
        wall = time.perf_counter() - began
        clock = device.clocks.read()
        late_s = 0.0
        if self._watched:
            self.worker.freeze()
            late_s = device.lingering_s()
            if not rest:
                self.wake()
        if not self._trusted and not same_bytes(inputs, batch):
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
            late_ms=1e3 * late_s,
            flags=replies.flags(reply),
            clock_mhz=clock.sm_mhz,
            throttled=clock.throttled,
        )
