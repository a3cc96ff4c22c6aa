"""One pass over three results (candidate's, eager's, the float64 twin's), in pieces, so that huge ones fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

PIECE = 1 << 20
"""Elements looked at together; a few float64 temporaries of this size are all that is allocated."""
GPU_PIECE = 1 << 25
"""The same on a GPU, where each look costs a wait for the device."""
GPU_TOGETHER = 1 << 23
"""Elements on a GPU of which all parts, or several results, are looked at side by side."""
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
    done = 0
    if 2 * TILES <= total <= (GPU_TOGETHER if candidate.is_cuda else PIECE):
        squares = [item[: TILES * length].view(TILES, length) for item in flat]
        if all(bool(item.isfinite().all()) for item in squares):
            yield from _side_by_side(*squares)
            done = TILES * length
    for start in range(done, total, max(length, 1)):
        end = min(start + length, total)
        sums = Sums()
        step = GPU_PIECE if candidate.is_cuda else PIECE
        for at in range(start, end, step):
            sums += _piece(*(item[at : min(at + step, end)] for item in flat))
        yield sums


def _side_by_side(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> Iterator[Sums]:
    """The same for finite numbers, a part in each row: a few operators for all parts instead of a few for each."""
    apart, truth, e_y = (c.double() - y).abs(), y.abs(), (e.double() - y).abs()
    beyond = (apart - 8 * UNIT.get(c.dtype, 2.0**-24) * truth).amax(1).clamp(min=0.0)
    rows = [item.square().sum(1) for item in (apart, e_y, truth)] + [apart.amax(1), e_y.amax(1), beyond]
    for error, eager, size, worst, worst_eager, past in torch.stack(rows, dim=1).tolist():
        yield Sums(c.shape[1], error, eager, size, worst, worst_eager, past)


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _piece(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> Sums:
    sums = _finite_piece(c, e, y)
    if sums is not None:
        return sums
    sums = Sums(count=c.numel(), stray=stray(c, e, y))
    known, expected = y.isfinite() & e.isfinite(), y.isfinite() & c.isfinite()
    of_eager = _finite_piece(e[known], e[known], y[known]) or Sums()
    of_candidate = _finite_piece(c[expected], c[expected], y[expected]) or Sums()
    sums.eager, sums.worst_eager = of_eager.eager, of_eager.worst_eager
    sums.error, sums.worst = of_candidate.error, of_candidate.worst
    sums.size, sums.beyond = of_candidate.size, of_candidate.beyond
    return sums


def _finite_piece(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> Sums | None:
    """Sums where all is finite, in few passes and with one wait for the device; None where something is not."""
    if not c.numel():
        return Sums()
    unit = UNIT.get(c.dtype, 2.0**-24)
    norm = torch.linalg.vector_norm
    wide = y.double()
    e_y, apart = _difference(e, wide), _difference(c, wide).abs_()
    # On a CPU a norm for the largest takes several times as long; on a GPU it spares a pass.
    largest = norm(e_y, math.inf) if wide.is_cuda else e_y.abs_().amax()
    found = [norm(e_y), largest, norm(apart), apart.amax(), norm(wide)]
    found.append(apart.sub_(wide.abs(), alpha=8 * unit).amax())
    eager, worst_eager, error, worst, size, beyond = torch.stack(found).tolist()
    if not math.isfinite(eager + error + size):
        return None
    return Sums(
        count=c.numel(), error=error**2, eager=eager**2, size=size**2, worst=worst, worst_eager=worst_eager,
        beyond=max(0.0, beyond),
    )  # fmt: skip


def _difference(one: torch.Tensor, wide: torch.Tensor) -> torch.Tensor:
    """In double precision; of mixed types in one step it takes several times as long on a CPU."""
    return torch.sub(one, wide) if wide.is_cuda else one.to(torch.float64, copy=True).sub_(wide)


def stray(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> int:
    """Elements that are non-finite in a way that neither eager nor the twin (in this dtype) is, or the reverse."""
    step = GPU_PIECE if c.is_cuda else PIECE
    pieces = zip(*(real(item).reshape(-1).split(step) for item in (c, e, y)), strict=True)
    return sum(_stray(mine, eager, twin.to(eager.dtype)) for mine, eager, twin in pieces)


def _stray(c: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> int:
    kinds = [_kind(item) for item in (c, e, y)]
    return int(((kinds[0] != kinds[1]) & (kinds[0] != kinds[2])).sum())


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 NaN, 2 infinity, 3 minus infinity."""
    infinite = tensor.isposinf().to(torch.int8) * 2 + tensor.isneginf().to(torch.int8) * 3
    return infinite + tensor.isnan().to(torch.int8)
