"""Tensors of one shape, looked at in stretches: what a comparison makes on the way stays small beside them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

PIECE = 1 << 20
"""Elements of a stretch, about."""
GPU_PIECE = 1 << 26
"""The same on a GPU, where each look costs a wait for the device."""


def pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same stretch of each tensor, one after the other; views, in whatever layout the tensors are."""
    first = tensors[0]
    most = GPU_PIECE if first.is_cuda else PIECE
    if first.numel() <= most:
        yield tensors
    elif all(item.is_contiguous() for item in tensors):
        flat = [item.view(-1) for item in tensors]
        for start in range(0, first.numel(), most):
            yield tuple(item[start : start + most] for item in flat)
    else:
        rows = most * len(first) // first.numel()
        for start in range(0, len(first), max(rows, 1)):
            if rows:
                yield tuple(item[start : start + rows] for item in tensors)
            else:
                yield from pieces(*(item[start] for item in tensors))
