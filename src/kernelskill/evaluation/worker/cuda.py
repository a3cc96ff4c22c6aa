"""The judge's memory as a worker on the GPU sees it, and the clock of calls there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from .driver import Allocated, Physical, bytes_of
from .slots import MemorySlot, storage_elements

_synchronize = torch.cuda.synchronize
_event = torch.cuda.Event


class _Bytes:
    """Views of device bytes."""

    nbytes: int
    _bytes: torch.Tensor

    def tensor(self, spec: dict[str, Any], offset: int) -> torch.Tensor:
        """View of the slot's bytes, on the GPU."""
        dtype = getattr(torch, spec["dtype"])
        elements = storage_elements(spec["shape"], spec["stride"])
        if elements == 0:
            return torch.empty_strided(spec["shape"], spec["stride"], dtype=dtype, device="cuda")
        flat = self._bytes[offset : offset + elements * dtype.itemsize].view(dtype)
        return flat.as_strided(spec["shape"], spec["stride"])

    def pull(self) -> None:
        """Fetch what the judge wrote."""

    def push(self) -> None:
        """Let the judge see what was written."""


class DescriptorSlot(_Bytes):
    """An allocation of the judge's, by file descriptor."""

    def __init__(self, fd: int, nbytes: int, *, writable: bool, handle: str = "") -> None:
        self.nbytes = nbytes
        memory = Physical(nbytes, fd)
        os.close(fd)
        self._bytes = bytes_of(memory, nbytes)


class HandleSlot(_Bytes):
    """An allocation of the judge's, by CUDA IPC handle."""

    def __init__(self, fd: int, nbytes: int, *, writable: bool, handle: str = "") -> None:
        self.nbytes = nbytes
        self._bytes = bytes_of(Allocated(nbytes, bytes.fromhex(handle)), nbytes)


class StagedSlot(_Bytes):
    """Host memory of the judge's with a copy on the GPU."""

    def __init__(self, fd: int, nbytes: int, *, writable: bool, handle: str = "") -> None:
        self.nbytes = nbytes
        self._writable = writable
        self._host = MemorySlot(fd, nbytes, writable=True).tensor(
            {"shape": [nbytes], "stride": [1], "dtype": "uint8"}, 0
        )
        self._bytes = torch.empty(nbytes, dtype=torch.uint8, device="cuda")

    def pull(self) -> None:
        """Fetch what the judge wrote."""
        self._bytes.copy_(self._host)

    def push(self) -> None:
        """Let the judge see what was written."""
        if self._writable:
            self._host.copy_(self._bytes)


class Clock:
    """Times calls on the GPU: each begins on an idle device. That inputs are in no cache is the judge's doing."""

    def times(
        self, call: Callable[..., Any], store: Callable[..., None], bound: list[Any], order: list[int]
    ) -> list[float]:
        """Seconds of each call with the copy of its result, from the idle device on, as the current stream sees it.

        Before and after each call the whole device is waited for, not one stream: what goes on elsewhere is in no
        call's time here, but in the judge's.
        """
        pairs = [(_event(enable_timing=True), _event(enable_timing=True)) for _ in order]
        idle = _synchronize
        idle()
        for (start, end), index in zip(pairs, order, strict=True):
            item = bound[index]
            start.record()
            store(call(*item.args, **item.kwargs), item.outputs)
            end.record()
            idle()
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]


def is_broken() -> bool:
    """Whether this process's context is lost (an illegal address, a failed device assert): nothing works any more."""
    try:
        _synchronize()
        torch.empty(1, device="cuda")
    except torch.OutOfMemoryError:
        return False
    except RuntimeError:
        return True
    return False
