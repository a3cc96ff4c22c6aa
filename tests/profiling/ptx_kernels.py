"""Two kernels to be compiled, in a file of their own because Triton reads their source."""

import triton
import triton.language as tl


@triton.jit
def exponentials(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.exp(tl.load(x + at, at < n)), at < n)


@triton.jit
def add_up(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + at, at < n, 0.0), 0))
