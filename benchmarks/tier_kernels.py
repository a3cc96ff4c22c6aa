"""One Triton kernel that multiplies, or convolves as an implicit product, in each way of keeping digits."""

# ruff: noqa: ANN001, ANN201  Triton reads annotations itself

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

SIDE = 16
"""Side of the image that a convolution gives; its windows are 2 x 2, not padded."""
BLOCK, BLOCK_K = 64, 32
WARPS = 4


@dataclass(frozen=True)
class Way:
    """How products and sums are carried out."""

    precision: str
    """What `tl.dot` is asked for (ieee, tf32x3, tf32); `split`: three products of TF32 parts, those of low parts in a
    sum of their own, since a core cuts digits off at every step; or the type that inputs are rounded to first."""
    promote: int = 1 << 30
    """Terms after which the sum so far is added to a float32 total; more than there are: never."""


WAYS = {
    "blocked fp32": Way("ieee", 4096),
    "3xTF32": Way("split"),
    "3xTF32, promoted every 512": Way("split", 512),
    "3xTF32, promoted every 128": Way("split", 128),
    "3xTF32 of Triton": Way("tf32x3"),
    "TF32": Way("tf32"),
    "fp16": Way("fp16"),
    "bf16": Way("bf16"),
}
"""Name -> way; sums are kept in float32 by all. Triton's own split adds each block's products to the total outside of
the tensor core, which is a promotion every `BLOCK_K` terms."""


@triton.jit
def rounded(x):
    """To the nearest of eleven significant bits."""
    bits = (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def product(
    a, b, c, terms, promote, SIDE: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c[m, n] = sum over k of a(m, k) b[n, k]; a is a matrix, or with SIDE an image whose windows are the rows."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, terms, promote):
        part = tl.zeros((BLOCK, BLOCK), tl.float32)
        small = tl.zeros((BLOCK, BLOCK), tl.float32)
        for first in range(start, start + promote, BLOCK_K):
            k = first + tl.arange(0, BLOCK_K)
            if SIDE:
                row = m // SIDE * (SIDE + 1) + m % SIDE
                column = k // 4 * (SIDE + 1) * (SIDE + 1) + k % 4 // 2 * (SIDE + 1) + k % 2
                p = tl.load(a + row[:, None] + column[None, :])
            else:
                p = tl.load(a + m[:, None] * terms + k[None, :])
            q = tl.load(b + n[None, :] * terms + k[:, None])
            if PRECISION == "fp16":
                part = tl.dot(p.to(tl.float16), q.to(tl.float16), part)
            elif PRECISION == "bf16":
                part = tl.dot(p.to(tl.bfloat16), q.to(tl.bfloat16), part)
            elif PRECISION == "split":
                high_p, high_q = rounded(p), rounded(q)
                small = tl.dot(p - high_p, high_q, small, input_precision="tf32")
                small = tl.dot(high_p, q - high_q, small, input_precision="tf32")
                part = tl.dot(high_p, high_q, part, input_precision="tf32")
            else:
                part = tl.dot(p, q, part, input_precision=PRECISION)
        total += part + small
    tl.store(c + m[:, None] * N + n[None, :], total)


def multiplied(a: torch.Tensor, b: torch.Tensor, way: Way) -> torch.Tensor:
    """The product a b.T of float32 matrices [M, K] and [N, K].

    M and N are multiples of `BLOCK`, K is one of `BLOCK_K` and of the terms after which sums are promoted.
    """
    return _launched(a, b, a.shape[0], way, 0)


def convolved(image: torch.Tensor, weight: torch.Tensor, way: Way) -> torch.Tensor:
    """conv2d of an image [1, C, 17, 17] with a weight [N, C, 2, 2], float32 -> [1, N, 16, 16]."""
    found = _launched(image, weight, SIDE * SIDE, way, SIDE)
    return found.t().reshape(1, weight.shape[0], SIDE, SIDE)


def _launched(a: torch.Tensor, b: torch.Tensor, rows: int, way: Way, side: int) -> torch.Tensor:
    columns, terms = b.shape[0], b[0].numel()
    found = torch.empty(rows, columns, device=a.device)
    product[(rows // BLOCK, columns // BLOCK)](
        a, b, found, terms, min(way.promote, terms), SIDE=side, N=columns, PRECISION=way.precision, BLOCK=BLOCK,
        BLOCK_K=BLOCK_K, num_warps=WARPS,
    )  # fmt: skip
    return found
