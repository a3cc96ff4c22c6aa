"""Memory on the GPU that the judge owns and lends to workers, and the ways in which it can travel."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from kernelskill.errors import WorkerError
from kernelskill.evaluation.channel import Lent, Slot
from kernelskill.evaluation.process import Worker, WorkerFailure
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.evaluation.worker.driver import Allocated, DriverError, Physical, bytes_of

TRIAL_BYTES = 4096
TRIAL_S = 60.0


class GpuSlot:
    """A dedicated allocation on the GPU.

    Args:
        nbytes: size, bytes; 0 is allowed.

    Raises:
        DriverError: the driver refuses, for lack of memory most often.
    """

    kind: str = ""
    reader_only = False
    """The GPU knows no read-only mapping of another's memory; the judge writes inputs anew before each burst."""

    def __init__(self, nbytes: int, memory: Physical | Allocated) -> None:
        self.nbytes = nbytes
        self._memory: Physical | Allocated | None = memory
        self._fds: tuple[int, ...] = ()
        self._note: dict[str, Any] = {}

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that travel beside the message."""
        return self._fds

    @property
    def note(self) -> dict[str, Any]:
        """What the message says beside kind and size."""
        return self._note

    def tensor(self) -> torch.Tensor:
        """The judge's own view: uint8, `nbytes` long, on the GPU."""
        if self._memory is None:
            raise ValueError("the slot is closed")
        return bytes_of(self._memory, self.nbytes)

    def seal_for_reader(self) -> None:
        """Nothing to do; see `reader_only`."""

    def close(self) -> None:
        """Give the memory back once the last view of it is gone. May be called again."""
        for fd in self._fds:
            os.close(fd)
        self._fds = ()
        self._memory = None


class DescriptorSlot(GpuSlot):
    """Travels as a file descriptor beside the message; who holds none of it can never reach the memory."""

    kind = "cuda-fd"

    def __init__(self, nbytes: int) -> None:
        memory = Physical(nbytes)
        super().__init__(nbytes, memory)
        self._fds = (memory.export(),)


class HandleSlot(GpuSlot):
    """Travels as 64 bytes inside the message (CUDA IPC)."""

    kind = "cuda-ipc"

    def __init__(self, nbytes: int) -> None:
        memory = Allocated(nbytes)
        super().__init__(nbytes, memory)
        self._note = {"handle": memory.export().hex()}


class HostSlot(Slot):
    """Host memory, copied to and from the worker's GPU around each burst; for machines where nothing else works."""

    kind: str = "staged"

    def seal_for_reader(self) -> None:
        """Left writable: the driver wants to pin it."""

    def tensor(self) -> torch.Tensor:
        """The judge's own view: uint8, `nbytes` long, in host memory."""
        if not self.nbytes:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(self.view(), dtype=torch.uint8)


Make = Callable[[int], Lent]
WAYS: dict[str, Make] = {"descriptor": DescriptorSlot, "ipc": HandleSlot, "host": HostSlot}
"""Best first."""


def try_way(worker: Worker, way: str) -> str:
    """Whether bytes go to this worker and come back that way; "" or why not.

    Raises:
        WorkerError: the worker did not come up.
    """
    worker.ready()
    try:
        slot = WAYS[way](TRIAL_BYTES)
    except (DriverError, OSError) as error:
        return f"the judge cannot make one: {error}"
    try:
        mine = slot.tensor()
        mine.fill_(7)
        torch.cuda.synchronize()
        number = worker.give(slot, writable=True)
        worker.call("touch", timeout_s=TRIAL_S, slot=number)
        right = bool((mine == 8).all())
        worker.take_back(number)
        del mine
        return "" if right else "the judge does not see what the worker wrote"
    except StockFailure as failure:
        if not worker.alive:
            raise WorkerError(f"the worker died while {way} memory was tried: {failure}") from failure
        return failure.line
    except WorkerFailure as failure:
        return failure.detail[:300]
    finally:
        slot.close()
