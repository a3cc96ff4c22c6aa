"""Kernels over rows, windows and recurrences in Triton, each with a wrapper that launches it.

They stand for what printers of such kernels emit: statistics of channels, rows in pieces, strided rows, quads.
"""

# ruff: noqa: ANN001, ANN202  Triton reads annotations itself

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _statistics(x, y, CHANNELS, PLANE: tl.constexpr, IMAGES: tl.constexpr):
    channel, part = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((PLANE,), tl.float32)
    squares = tl.zeros((PLANE,), tl.float32)
    for image in range(IMAGES):
        base = ((part * IMAGES + image) * CHANNELS + channel).to(tl.int64) * PLANE
        v = tl.load(x + base + tl.arange(0, PLANE))
        total += v
        squares += v * v
    at = (part * CHANNELS + channel) * 2
    tl.store(y + at, tl.sum(total, 0))
    tl.store(y + at + 1, tl.sum(squares, 0))


def statistics(x: torch.Tensor, images: int = 4) -> torch.Tensor:
    """Sums and sums of squares (parts, C, 2) of a (N, C, H, W) batch by `images` images a part."""
    count, channels, height, width = x.shape
    y = torch.empty(count // images, channels, 2, device=x.device)
    _statistics[(channels, count // images)](x, y, channels, PLANE=height * width, IMAGES=images, num_warps=8)
    return y


@triton.jit
def _softmax_pieces(x, y, COLUMNS, PIECE: tl.constexpr, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * COLUMNS + tl.program_id(1) * PIECE
    high = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, PIECE, BLOCK):
        v = tl.load(x + base + start + tl.arange(0, BLOCK))
        higher = tl.maximum(high, v)
        total = total * tl.exp(high - higher) + tl.exp(v - higher)
        high = higher
    top = tl.max(high, 0)
    at = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * 2
    tl.store(y + at, top)
    tl.store(y + at + 1, tl.sum(total * tl.exp(high - top), 0))


def softmax_pieces(x: torch.Tensor, pieces: int = 32) -> torch.Tensor:
    """Maximum, and sum of exponentials around it, (rows, pieces, 2), of each piece of each row."""
    rows, columns = x.shape
    y = torch.empty(rows, pieces, 2, device=x.device)
    piece = columns // pieces
    _softmax_pieces[(rows, pieces)](x, y, columns, PIECE=piece, BLOCK=min(2048, piece), num_warps=8)
    return y


@triton.jit
def _row_argmax(x, y, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    v = tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(y + row, tl.argmax(v, 0))


def row_argmax(x: torch.Tensor) -> torch.Tensor:
    """Place of each row's maximum, int32."""
    y = torch.empty(x.shape[0], device=x.device, dtype=torch.int32)
    _row_argmax[(x.shape[0],)](x, y, COLUMNS=x.shape[1], num_warps=8)
    return y


@triton.jit
def _average_pool(x, y, WIDTH: tl.constexpr, HALF: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64)
    at = pair * (2 * WIDTH) + tl.arange(0, WIDTH)
    both = tl.load(x + at) + tl.load(x + at + WIDTH)
    tl.store(y + pair * HALF + tl.arange(0, HALF), 0.25 * tl.sum(tl.reshape(both, (HALF, 2)), 1))


def average_pool(x: torch.Tensor) -> torch.Tensor:
    """Means of windows of 2 x 2 of a (N, C, H, W) batch; a program takes pairs of lines as one long pair."""
    count, channels, height, width = x.shape
    y = torch.empty(count, channels, height // 2, width // 2, device=x.device)
    pairs = count * channels * height // 2
    _average_pool[(pairs,)](x, y, WIDTH=width, HALF=width // 2, num_warps=1)
    return y


@triton.jit
def _group_norm(x, y, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * GROUP
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, GROUP, BLOCK):
        v = tl.load(x + base + start + tl.arange(0, BLOCK))
        total += v
        squares += v * v
    mean = tl.sum(total, 0) / GROUP
    scale = tl.rsqrt(tl.sum(squares, 0) / GROUP - mean * mean + 1e-5)
    for start in range(0, GROUP, BLOCK):
        at = base + start + tl.arange(0, BLOCK)
        tl.store(y + at, (tl.load(x + at) - mean) * scale)


def group_norm(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Group normalisation of (N, C, H, W) without weights: each group is walked twice."""
    y = torch.empty_like(x)
    size = x.numel() // (x.shape[0] * groups)
    _group_norm[(x.shape[0] * groups,)](x, y, GROUP=size, BLOCK=min(4096, size), num_warps=8)
    return y


@triton.jit
def _masked_scan(x, keep, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.where(tl.load(keep + at) != 0, tl.load(x + at), 0.0)
    tl.store(y + at, tl.cumsum(v, 0))


def masked_scan(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Cumulative sums of each row over the elements that an int8 mask keeps."""
    y = torch.empty_like(x)
    _masked_scan[(x.shape[0],)](x, keep, y, COLUMNS=x.shape[1], num_warps=8)
    return y


@triton.jit
def _spilling_norm(x, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.load(x + at)
    centred = v - tl.sum(v, 0) / COLUMNS
    tl.store(y + at, centred * tl.rsqrt(tl.sum(centred * centred, 0) / COLUMNS + 1e-5))


def spilling_norm(x: torch.Tensor) -> torch.Tensor:
    """Row normalisation with 64 elements a thread and 40 registers for them: an occupancy that was forced."""
    y = torch.empty_like(x)
    _spilling_norm[(x.shape[0],)](x, y, COLUMNS=x.shape[1], num_warps=8, maxnreg=40)
    return y


@triton.jit
def _column_softmax(x, y, INNER, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    line = tl.program_id(1).to(tl.int64) * LENGTH
    inner = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = (line + tl.arange(0, LENGTH))[:, None] * INNER + inner[None, :]
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v, 0)[None, :])
    tl.store(y + at, e / tl.sum(e, 0)[None, :])


def column_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the middle axis of (outer, length, inner), 32 columns of the inner axis a program."""
    outer, length, inner = x.shape
    y = torch.empty_like(x)
    _column_softmax[(inner // 32, outer)](x, y, inner, LENGTH=length, BLOCK=32, num_warps=8)
    return y


@triton.jit
def _recurrence(x, decay, y, STEPS, WIDTH, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(decay + lane)
    state = tl.zeros((BLOCK,), tl.float32)
    at = lane.to(tl.int64)
    for _ in range(STEPS):
        state = keep * state + tl.load(x + at)
        tl.store(y + at, state)
        at += WIDTH


def recurrence(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """state[t] = decay * state[t - 1] + x[t] over the first axis of (steps, width): one thread a lane."""
    y = torch.empty_like(x)
    steps, width = x.shape
    _recurrence[(width // 128,)](x, decay, y, steps, width, BLOCK=128, num_warps=4)
    return y
