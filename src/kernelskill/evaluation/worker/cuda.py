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
    """Times calls on the GPU that follow one another as fast as they are asked for, as in use.

    They begin on an idle device, so the first call has to get there and the others do not: a call that keeps the GPU
    longer than the processor needs to ask for it costs what it keeps the GPU. That inputs are in no cache is the
    judge's doing.
    """

    def times(
        self, call: Callable[..., Any], store: Callable[..., None], bound: list[Any], order: list[int]
    ) -> list[float]:
        """Mean seconds of a call with the copy of its result, once for each.

        Before and after, the whole device is waited for, not one stream: what goes on elsewhere is not in this time,
        but in the judge's.
        """

        def calls() -> None:
            for index in order:
                item = bound[index]
                store(call(*item.args, **item.kwargs), item.outputs)

        return [_seconds(calls) / len(order)] * len(order)


TRIES, MUCH_QUICKER = 2, 0.75
"""Goes of each way of copying, of which the quickest counts, and the share of the time of copies that are asked for one
by one below which it is their asking that costs."""


class Copies:
    """What the copies of results that are ready cost the GPU.

    In a burst of calls they are asked for while the GPU still computes. By themselves small ones would be no faster
    than the processor asks, so they are one graph. Large ones are asked for one by one, as they are after calls: a
    graph copies by other means, at times half as fast. The first burst tells which they are.

    Args:
        store: copies a result into its place.
        ready: the result of every call.
    """

    def __init__(self, store: Callable[..., None], ready: Any) -> None:
        self._store = store
        self._ready = ready
        self._ways: dict[tuple[int, ...], Callable[[], None]] = {}

    def times(self, _call: Any, _store: Any, bound: list[Any], order: list[int]) -> list[float]:
        """As `Clock.times`."""
        work = self._ways.get(tuple(order)) or self._chosen(bound, order)
        return [_seconds(work) / len(order)] * len(order)

    def _chosen(self, bound: list[Any], order: list[int]) -> Callable[[], None]:
        def copies() -> None:
            for index in order:
                self._store(self._ready, bound[index].outputs)

        graph = torch.cuda.CUDAGraph()
        _synchronize()
        with torch.cuda.graph(graph):
            copies()
        alone, together = (min(_seconds(way) for _ in range(TRIES)) for way in (copies, graph.replay))
        self._ways[tuple(order)] = graph.replay if together < MUCH_QUICKER * alone else copies
        return self._ways[tuple(order)]


def _seconds(work: Callable[[], None]) -> float:
    start, end = _event(enable_timing=True), _event(enable_timing=True)
    _synchronize()
    start.record()
    work()
    end.record()
    _synchronize()
    return float(start.elapsed_time(end)) / 1e3


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
