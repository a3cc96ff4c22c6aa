"""Memory that the judge lends: mapped once, seen as tensors.

Memory on the GPU is of other classes, in `cuda.py`; that file is loaded when the first such slot arrives.
"""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Iterable
from typing import Any, Protocol

import torch

PAGE = mmap.PAGESIZE


class Slot(Protocol):
    """A piece of the judge's memory."""

    nbytes: int

    def tensor(self, spec: dict[str, Any], offset: int) -> torch.Tensor:
        """View of the slot's bytes from `offset` on, with the shape, stride and dtype of a TensorSpec."""
        ...

    def pull(self) -> None:
        """Fetch what the judge wrote, where the views are of a copy."""
        ...

    def push(self) -> None:
        """Let the judge see what was written, where the views are of a copy."""
        ...


class MemorySlot:
    """A memfd of the judge's. Read-only mappings cannot be made writable: the judge has sealed the file."""

    def __init__(self, fd: int, nbytes: int, *, writable: bool) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.nbytes = nbytes
        self.writable = writable
        # MAP_POPULATE: every page is faulted in now, not inside a timed call
        self._map = mmap.mmap(fd, max(nbytes, PAGE), mmap.MAP_SHARED | mmap.MAP_POPULATE, protection)
        os.close(fd)

    def tensor(self, spec: dict[str, Any], offset: int) -> torch.Tensor:
        """View of the slot's bytes, in host memory."""
        dtype = getattr(torch, spec["dtype"])
        shape, stride = spec["shape"], spec["stride"]
        elements = storage_elements(shape, stride)
        if elements == 0:
            return torch.empty_strided(shape, stride, dtype=dtype)
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="The given buffer is not writable", category=UserWarning
            )
            flat = torch.frombuffer(self._map, dtype=dtype, count=elements, offset=offset)
        return flat.as_strided(shape, stride)

    def pull(self) -> None:
        """Nothing to fetch: the views are of the judge's own memory."""

    def push(self) -> None:
        """Nothing to hand over: the views are of the judge's own memory."""


KINDS = {
    "memory": "MemorySlot",
    "cuda-fd": "DescriptorSlot",
    "cuda-ipc": "HandleSlot",
    "staged": "StagedSlot",
}


class SlotTable:
    """Slots by the number that the judge gave them."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}

    def add(self, number: int, kind: str, fd: int, nbytes: int, *, writable: bool, handle: str = "") -> None:
        """Map a slot that has just arrived.

        Args:
            number: the judge's name for it.
            kind: one of `KINDS`.
            fd: the descriptor that came along (-1: none); the table owns it from now on.
            nbytes: its length.
            writable: whether it may be written.
            handle: what names it where no descriptor does.
        """
        if kind == "memory":
            self._slots[number] = MemorySlot(fd, nbytes, writable=writable)
            return
        from . import cuda

        self._slots[number] = getattr(cuda, KINDS[kind])(fd, nbytes, writable=writable, handle=handle)

    def drop(self, number: int) -> None:
        """Forget a slot; its memory goes when no tensor points to it any more."""
        self._slots.pop(number, None)

    def pull(self, numbers: Iterable[int]) -> None:
        """Fetch what the judge wrote to these."""
        for number in dict.fromkeys(numbers):
            self._slots[number].pull()

    def push(self, numbers: Iterable[int]) -> None:
        """Let the judge see what was written to these."""
        for number in dict.fromkeys(numbers):
            self._slots[number].push()

    def __getitem__(self, number: int) -> Slot:
        return self._slots[number]


def storage_elements(shape: list[int], stride: list[int]) -> int:
    """Elements from the first to the last one addressed."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
