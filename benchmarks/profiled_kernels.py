"""Kernels of many kinds, each with the work that its mathematics needs; what `record_profiles.py` records."""

# ruff: noqa: ANN001, ANN201, ANN202  Triton reads annotations itself

from __future__ import annotations

import torch
import triton
import triton.language as tl
from profiled_case import Case
from profiled_cuda import cuda_cases
from profiled_library import library_cases
from profiled_made import made_cases


@triton.jit
def mark(x):
    """Stands between two cases in a profile; its grid tells the number of the second."""
    tl.store(x + tl.program_id(0), 1.0)


@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n), at < n)


@triton.jit
def _gelu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, at < n)
    tl.store(y + at, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), at < n)


@triton.jit
def _many_exponentials(x, y, n, BLOCK: tl.constexpr, TIMES: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, at < n)
    for _ in range(TIMES):
        v = tl.exp(-v * v)
    tl.store(y + at, v, at < n)


@triton.jit
def _softmax(x, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + at, e / tl.sum(e, 0))


@triton.jit
def _softmax_few_warps(x, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + at, e / tl.sum(e, 0))


@triton.jit
def _layer_norm(x, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.load(x + at)
    mean = tl.sum(v, 0) / COLUMNS
    centred = v - mean
    variance = tl.sum(centred * centred, 0) / COLUMNS
    tl.store(y + at, centred * tl.rsqrt(variance + 1e-5))


@triton.jit
def _strided_sum(x, y, ROWS, COLUMNS, BLOCK: tl.constexpr, TALL: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((TALL, BLOCK), tl.float32)
    for row in range(0, ROWS, TALL):
        at = (row + tl.arange(0, TALL)).to(tl.int64)[:, None] * COLUMNS + column[None, :]
        total += tl.load(x + at)
    tl.store(y + column, tl.sum(total, 0))


@triton.jit
def _few_rows(x, y, COLUMNS, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        total += tl.load(x + base + start + tl.arange(0, BLOCK))
    tl.store(y + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _transposed(x, y, ROWS, COLUMNS, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // COLUMNS, at % COLUMNS
    tl.store(y + column * ROWS + row, tl.load(x + at))


@triton.jit
def _gather(x, index, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(index + at, at < n)
    tl.store(y + at, tl.load(x + place, at < n), at < n)


def cases() -> list[Case]:
    """Everything that is recorded; inputs are random and made here."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    n = 1 << 25
    x, y = torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
    index = torch.randint(0, n, (n,), device="cuda", dtype=torch.int32)
    a, b = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    image = torch.randn(32, 64, 128, 128, device="cuda")
    weight = torch.randn(128, 64, 3, 3, device="cuda")
    tiny = torch.randn(1024, device="cuda")
    wide = x.view(4096, 8192)
    blocks = n // 1024
    functional = torch.nn.functional
    found = [
        Case("copy", lambda: _copy[(blocks,)](x, y, n, BLOCK=1024), 4 * n, 4 * n, is_map=True),
        Case("gelu", lambda: _gelu[(blocks,)](x, y, n, BLOCK=1024), 4 * n, 4 * n, 4.0 * n, n, True),
        Case(
            "many_exponentials",
            lambda: _many_exponentials[(blocks,)](x, y, n, BLOCK=1024, TIMES=64),
            4 * n, 4 * n, 128.0 * n, 64 * n, True,
        ),
        Case(
            "row_softmax", lambda: _softmax[(n // 8192,)](x, y, COLUMNS=8192, num_warps=8),
            4 * n, 4 * n, 4.0 * n, n,
        ),
        Case(
            "row_softmax_few_warps", lambda: _softmax_few_warps[(n // 32768,)](x, y, COLUMNS=32768, num_warps=4),
            4 * n, 4 * n, 4.0 * n, n,
        ),
        Case(
            "layer_norm", lambda: _layer_norm[(n // 4096,)](x, y, COLUMNS=4096, num_warps=8),
            4 * n, 4 * n, 6.0 * n,
        ),
        Case(
            "strided_sum", lambda: _strided_sum[(4096 // 32,)](x, y, n // 4096, 4096, BLOCK=32, TALL=32),
            4 * n, 4 * 4096, 1.0 * n,
        ),
        Case(
            "few_rows", lambda: _few_rows[(16,)](x, y, n // 16, BLOCK=4096, num_warps=8),
            4 * n, 64, 1.0 * n,
        ),
        Case(
            "transposed_copy", lambda: _transposed[(blocks,)](x, y, n // 8192, 8192, BLOCK=1024),
            4 * n, 4 * n, is_map=True,
        ),
        Case("gather", lambda: _gather[(blocks,)](x, index, y, n, BLOCK=1024), 8 * n, 4 * n),
        Case("full_sum", x.sum, 4 * n, 4, 1.0 * n),
        Case("cumulative_sum", lambda: torch.cumsum(wide, 1), 4 * n, 4 * n, 1.0 * n),
        Case("matmul", lambda: a @ b, 2 * a.nbytes, a.nbytes, 2.0 * 4096**3),
        Case(
            "conv2d", lambda: functional.conv2d(image, weight, padding=1),
            image.nbytes + weight.nbytes, 2 * image.nbytes, 2.0 * 32 * 128 * 128 * 128 * 64 * 9,
        ),
        Case("max_pool2d", lambda: functional.max_pool2d(image, 3, 2, 1), image.nbytes, image.nbytes // 4),
        Case("small_add", lambda: torch.add(tiny, 1.0), tiny.nbytes, tiny.nbytes, 1024.0, is_map=True),
    ]  # fmt: skip
    return found + made_cases(x) + library_cases(x) + cuda_cases(x, y)
