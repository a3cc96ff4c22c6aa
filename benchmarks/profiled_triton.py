"""Maps, scattered accesses and products in Triton, each with a wrapper that launches it."""

# ruff: noqa: ANN001, ANN202  Triton reads annotations itself

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _transposed_read(x, y, ROWS, COLUMNS, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, column = at % ROWS, at // ROWS
    tl.store(y + at, tl.load(x + row * COLUMNS + column))


def transposed_read(x: torch.Tensor) -> torch.Tensor:
    """The transpose of a matrix, written in order and read down its columns."""
    rows, columns = x.shape
    y = torch.empty(columns, rows, device=x.device)
    _transposed_read[(x.numel() // BLOCK,)](x, y, rows, columns, BLOCK=BLOCK)
    return y


@triton.jit
def _strided_write(x, y, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at * WIDTH, tl.load(x + at))


def strided_write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Fill the first column of y (n, width), as concatenating along the last axis does."""
    _strided_write[(x.numel() // BLOCK,)](x, y, WIDTH=y.shape[1], BLOCK=BLOCK)
    return y


@triton.jit
def _half_silu(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float32)
    tl.store(y + at, (v / (1.0 + tl.exp(-v))).to(tl.float16))


def half_silu(x: torch.Tensor) -> torch.Tensor:
    """SiLU, x * sigmoid(x), in float16, computed in float32."""
    y = torch.empty_like(x)
    _half_silu[(x.numel() // BLOCK,)](x, y, BLOCK=BLOCK)
    return y


@triton.jit
def _outer_sum(a, b, y, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    tl.store(y + row * COLUMNS + column, tl.load(a + row) + tl.load(b + column))


def outer_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a[:, None] + b[None, :]: operands from the caches, a matrix to memory."""
    y = torch.empty(a.numel(), b.numel(), device=a.device)
    _outer_sum[(a.numel(),)](a, b, y, COLUMNS=b.numel())
    return y


@triton.jit
def _fused_map(x, scale, shift, y, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at) * tl.load(scale + at) + tl.load(shift + at)
    tl.store(y + at, tl.maximum(v, 0.0))


def fused_map(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """relu(x * scale + shift), all of one shape."""
    y = torch.empty_like(x)
    _fused_map[(x.numel() // BLOCK,)](x, scale, shift, y, BLOCK=BLOCK)
    return y


@triton.jit
def _dropout(x, y, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > 0.5
    tl.store(y + at, tl.where(kept, 2.0 * tl.load(x + at), 0.0))


def dropout(x: torch.Tensor) -> torch.Tensor:
    """Half of the elements, doubled: ten rounds of Philox for each, four of whose words one is used of."""
    y = torch.empty_like(x)
    _dropout[(x.numel() // BLOCK,)](x, y, 1234, BLOCK=BLOCK)
    return y


@triton.jit
def _scatter_add(x, index, y, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    target = tl.load(index + row).to(tl.int64)
    tl.atomic_add(y + target * WIDTH + column, tl.load(x + row * WIDTH + column), sem="relaxed")


def scatter_add(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add each row of x to the row of y that its index names, as the backward of an embedding does."""
    _scatter_add[(x.shape[0],)](x, index, y, WIDTH=x.shape[1], num_warps=2)
    return y


@triton.jit
def _few_bins(index, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + tl.load(index + at), tl.full((BLOCK,), 1, tl.int32), sem="relaxed")


def few_bins(index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Count int32 indices into the few bins of y, every one by an atomic of its own."""
    _few_bins[(index.numel() // BLOCK,)](index, y, BLOCK=BLOCK)
    return y


@triton.jit
def _product(a, b, c, N, DEPTH, M_TILE: tl.constexpr, N_TILE: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0) * M_TILE + tl.arange(0, M_TILE)
    column = tl.program_id(1) * N_TILE + tl.arange(0, N_TILE)
    step = tl.arange(0, STEP)
    left = a + row.to(tl.int64)[:, None] * DEPTH + step[None, :]
    right = b + step.to(tl.int64)[:, None] * N + column[None, :]
    total = tl.zeros((M_TILE, N_TILE), tl.float32)
    for _ in range(0, DEPTH, STEP):
        total = tl.dot(tl.load(left), tl.load(right), total, input_precision="tf32")
        left += STEP
        right += STEP * N
    tl.store(c + row.to(tl.int64)[:, None] * N + column[None, :], total)


def product(a: torch.Tensor, b: torch.Tensor, tile: tuple[int, int, int], warps: int) -> torch.Tensor:
    """Product a @ b in TF32; the tiles divide the shapes."""
    (m, depth), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device)
    grid = (m // tile[0], n // tile[1])
    _product[grid](a, b, c, n, depth, tile[0], tile[1], tile[2], num_warps=warps, num_stages=3)
    return c


@triton.jit
def _tall_product(a, b, c, N: tl.constexpr, DEPTH: tl.constexpr, M_TILE: tl.constexpr):
    row = (tl.program_id(0) * M_TILE + tl.arange(0, M_TILE)).to(tl.int64)
    step, column = tl.arange(0, DEPTH), tl.arange(0, N)
    left = tl.load(a + row[:, None] * DEPTH + step[None, :])
    right = tl.load(b + step[:, None] * N + column[None, :])
    tl.store(c + row[:, None] * N + column[None, :], tl.dot(left, right, input_precision="tf32"))


def tall_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product a @ b in TF32 where b is small enough to be held by every program."""
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    _tall_product[(a.shape[0] // 128,)](a, b, c, N=b.shape[1], DEPTH=b.shape[0], M_TILE=128)
    return c
