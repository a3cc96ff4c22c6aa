"""One pass over three results (candidate's, eager's, the float64 twin's), in pieces, so that huge ones fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

PIECE = 1 << 20
"""Elements looked at together; a few float64 temporaries of this size are all that is allocated."""
GPU_PIECE = 1 << 25
"""The same on a GPU, where each look costs a wait for the device."""
TILES = 64
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Half a unit in the last place of 1."""


@dataclass
class Sums:
    """What the gates need to know of a stretch of elements. Squares are summed over finite elements."""

    count: int = 0
    error: float = 0.0
    """Sum of (C - Y)^2."""
    eager: float = 0.0
    """Sum of (E - Y)^2."""
    size: float = 0.0
    """Sum of Y^2."""
    worst: float = 0.0
    """max |C - Y|."""
    worst_eager: float = 0.0
    """max |E - Y|."""
    beyond: float = 0.0
    """max (|C - Y| - 8 u |Y|): what is left of the worst error after a few roundings of that element."""
    stray: int = 0
    """Elements whose NaN or infinity stands neither in E nor in Y."""

    def __iadd__(self, other: Sums) -> Sums:
        self.count += other.count
        self.error += other.error
        self.eager += other.eager
        self.size += other.size
        self.worst = max(self.worst, other.worst)
        self.worst_eager = max(self.worst_eager, other.worst_eager)
        self.beyond = max(self.beyond, other.beyond)
        self.stray += other.stray
        return self


def tiles(candidate: torch.Tensor, eager: torch.Tensor, twin: torch.Tensor) -> Iterator[Sums]:
    """Sums of each of up to `TILES` equal parts, and of the remainder as one more part."""
    flat = [real(item).reshape(-1) for item in (candidate, eager, twin)]
    total = flat[0].numel()
    length = total // TILES if total >= 2 * TILES else total
    for start in range(0, total, max(length, 1)):
        end = min(start + length, total)
        sums = Sums()
        step = GPU_PIECE if candidate.is_cuda else PIECE
        for at in range(start, end, step):
            sums += _piece(*(item[at : min(at + step, end)] for item in flat))
        yield sums


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _piece(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> Sums:
    sums = Sums(count=c.numel())
    unit = UNIT.get(c.dtype, 2.0**-24)
    kinds = c.isfinite()
    if not bool(kinds.all() & e.isfinite().all() & y.isfinite().all()):
        sums.stray = stray(c, e, y.to(c.dtype))
        known, expected = y.isfinite() & e.isfinite(), y.isfinite() & c.isfinite()
        e_y = (e.double() - y)[known]
        apart, truth = (c.double() - y)[expected].abs(), y[expected].abs()
    else:
        e_y, apart, truth = e.double() - y, (c.double() - y).abs(), y.abs()
    if e_y.numel():
        sums.eager, sums.worst_eager = float(e_y.square().sum()), float(e_y.abs().max())
    if apart.numel():
        sums.error, sums.worst = float(apart.square().sum()), float(apart.max())
        sums.size = float(truth.square().sum())
        sums.beyond = max(0.0, float((apart - 8 * unit * truth).max()))
    return sums


def stray(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> int:
    """Elements that are non-finite in a way that neither eager nor the twin (in this dtype) is, or the reverse."""
    kinds = [_kind(item) for item in (c, e, y)]
    return int(((kinds[0] != kinds[1]) & (kinds[0] != kinds[2])).sum())


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 NaN, 2 infinity, 3 minus infinity."""
    return tensor.isnan().to(torch.int8) + 2 * tensor.isposinf() + 3 * tensor.isneginf()
