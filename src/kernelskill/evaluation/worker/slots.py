"""Memory that the judge lends: mapped once, seen as tensors.

Another device's memory would be a second class with `tensor(spec, offset)` and `nbytes`, and a second entry
in `KINDS`.
"""

from __future__ import annotations

import mmap
import os
import warnings
from typing import Any, Protocol

import torch

PAGE = mmap.PAGESIZE


class Slot(Protocol):
    """A piece of the judge's memory."""

    nbytes: int

    def tensor(self, spec: dict[str, Any], offset: int) -> torch.Tensor:
        """View of the slot's bytes from `offset` on, with the shape, stride and dtype of a TensorSpec."""
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


KINDS = {"memory": MemorySlot}


class SlotTable:
    """Slots by the number that the judge gave them."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}

    def add(self, number: int, kind: str, fd: int, nbytes: int, *, writable: bool) -> None:
        """Map a slot that has just arrived."""
        self._slots[number] = KINDS[kind](fd, nbytes, writable=writable)

    def drop(self, number: int) -> None:
        """Forget a slot; its memory goes when no tensor points to it any more."""
        self._slots.pop(number, None)

    def __getitem__(self, number: int) -> Slot:
        return self._slots[number]


def storage_elements(shape: list[int], stride: list[int]) -> int:
    """Elements from the first to the last one addressed."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
