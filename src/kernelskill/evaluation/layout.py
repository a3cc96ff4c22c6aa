"""How the leaves of several calls lie in one piece of memory, and torch views of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelskill.records import TensorSpec

ALIGNMENT = 4096
"""Leaves begin on pages, so that no arm is helped or hurt by where a neighbour ends."""


@dataclass(frozen=True)
class Layout:
    """Offsets of every leaf of `count` calls."""

    specs: tuple[TensorSpec, ...]
    count: int
    starts: tuple[int, ...]
    """Byte offset of each leaf within a call."""
    step: int
    """Bytes of one call."""

    @classmethod
    def of(cls, specs: Sequence[TensorSpec], count: int) -> Layout:
        """Lay the leaves one after the other."""
        starts, at = [], 0
        for spec in specs:
            starts.append(at)
            at += -(-max(spec.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return cls(tuple(specs), count, tuple(starts), max(at, ALIGNMENT))

    @property
    def nbytes(self) -> int:
        """Bytes of all calls."""
        return self.step * self.count

    def bound(self, slot: int) -> list[dict[str, Any]]:
        """The leaves as the worker's `bind` takes them."""
        return [
            {"slot": slot, "spec": spec.model_dump(mode="json"), "offset": start, "step": self.step}
            for spec, start in zip(self.specs, self.starts, strict=True)
        ]

    def views(self, memory: torch.Tensor, call: int) -> list[torch.Tensor]:
        """Tensors over a uint8 tensor that holds all calls."""
        return [
            view(memory, spec, call * self.step + start)
            for spec, start in zip(self.specs, self.starts, strict=True)
        ]


def view(memory: torch.Tensor, spec: TensorSpec, offset: int) -> torch.Tensor:
    """A tensor over bytes of a uint8 tensor."""
    dtype = getattr(torch, spec.dtype)
    if spec.storage_elements == 0:
        return torch.empty_strided(spec.shape, spec.stride, dtype=dtype, device=memory.device)
    flat = memory[offset : offset + spec.nbytes].view(dtype)
    return flat.as_strided(spec.shape, spec.stride)
