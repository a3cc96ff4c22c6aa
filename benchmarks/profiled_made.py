"""Cases of the kernels in `profiled_rows.py` and `profiled_triton.py`: shapes, and the work of their mathematics."""

from __future__ import annotations

import profiled_rows as rows
import profiled_triton as plain
import torch
from profiled_case import Case


def made_cases(x: torch.Tensor) -> list[Case]:
    """Cases over the n = 2^25 random floats of x, on its device."""
    return [*row_cases(x), *map_cases(x), *scattered_cases(x), *product_cases(x.device)]


def row_cases(x: torch.Tensor) -> list[Case]:
    """Rows, windows and recurrences."""
    n, device = x.numel(), x.device
    batch, image = x.view(128, 64, 64, 64), x.view(32, 64, 128, 128)
    keep = torch.randint(0, 2, (4096, 8192), device=device, dtype=torch.int8)
    decay = torch.rand(16384, device=device)
    wide, lines, deep = x.view(4096, 8192), x.view(16, 512, 4096), x.view(2048, 16384)
    return [
        Case("batch_statistics", lambda: rows.statistics(batch), 4 * n, 32 * 64 * 2 * 4, 3.0 * n),
        Case(
            "softmax_pieces", lambda: rows.softmax_pieces(x.view(32, -1)), 4 * n, 32 * 32 * 2 * 4, 5.0 * n, 2.0 * n
        ),
        Case("row_argmax", lambda: rows.row_argmax(wide), 4 * n, 4 * 4096, 1.0 * n),
        Case("average_pool", lambda: rows.average_pool(image), 4 * n, n, 1.0 * n),
        Case("group_norm", lambda: rows.group_norm(image, 16), 4 * n, 4 * n, 5.0 * n),
        Case("masked_scan", lambda: rows.masked_scan(wide, keep), 5 * n, 4 * n, 1.0 * n),
        Case("spilling_norm", lambda: rows.spilling_norm(deep), 4 * n, 4 * n, 5.0 * n),
        Case("column_softmax", lambda: rows.column_softmax(lines), 4 * n, 4 * n, 4.0 * n, n),
        Case("recurrence", lambda: rows.recurrence(deep, decay), 4 * n, 4 * n, 2.0 * n),
    ]  # fmt: skip


def map_cases(x: torch.Tensor) -> list[Case]:
    """Elements that are independent of each other."""
    n, device = x.numel(), x.device
    pairs = torch.empty(n, 2, device=device)
    half = torch.randn(2 * n, device=device).half()
    scale, shift = torch.rand(n, device=device), torch.rand(n, device=device)
    long, short = x[:16384], x[:2048]
    return [
        Case("transposed_read", lambda: plain.transposed_read(x.view(4096, 8192)), 4 * n, 4 * n, is_map=True),
        Case("strided_write", lambda: plain.strided_write(x, pairs), 4 * n, 4 * n, is_map=True),
        Case("half_silu", lambda: plain.half_silu(half), 4 * n, 4 * n, 6.0 * n, 2.0 * n, is_map=True),
        Case("outer_sum", lambda: plain.outer_sum(long, short), 73728, 4 * n, 1.0 * n, is_map=True),
        Case("fused_map", lambda: plain.fused_map(x, scale, shift), 12 * n, 4 * n, 3.0 * n, is_map=True),
        # A round of Philox: two products of 32 bits with both halves, four exclusive ors, two sums; ten rounds.
        Case("dropout", lambda: plain.dropout(x), 4 * n, 4 * n, 100.0 * n, is_map=True),
    ]  # fmt: skip


def scattered_cases(x: torch.Tensor) -> list[Case]:
    """Sums at places that indices name."""
    n, device = x.numel(), x.device
    tokens = torch.randint(0, 4096, (n // 256,), device=device, dtype=torch.int32)
    table = torch.zeros(4096, 256, device=device)
    bins = torch.randint(0, 16, (1 << 23,), device=device, dtype=torch.int32)
    counts = torch.zeros(16, device=device, dtype=torch.int32)
    return [
        Case(
            "scatter_add", lambda: plain.scatter_add(x.view(-1, 256), tokens, table),
            4 * n + tokens.nbytes, table.nbytes, 1.0 * n,
        ),
        Case("few_bins", lambda: plain.few_bins(bins, counts), bins.nbytes, 64, 1.0 * (1 << 23)),
    ]  # fmt: skip


def product_cases(device: torch.device) -> list[Case]:
    """Matrix products by tiles."""
    a, b = (torch.randn(4096, 4096, device=device) for _ in range(2))
    tall, thin = torch.randn(1 << 19, 64, device=device), torch.randn(64, 16, device=device)
    flat, deep = torch.randn(128, 1 << 16, device=device), torch.randn(1 << 16, 128, device=device)
    return [
        Case("tf32_product", lambda: plain.product(a, b, (128, 128, 32), 8), 2 * a.nbytes, a.nbytes, 2.0 * 4096**3),
        Case(
            "tall_product", lambda: plain.tall_product(tall, thin), tall.nbytes + thin.nbytes, tall.nbytes // 4,
            2.0 * tall.numel() * 16,
        ),
        Case(
            "few_tiles", lambda: plain.product(flat, deep, (64, 64, 32), 4), flat.nbytes + deep.nbytes, 4 * 128 * 128,
            2.0 * flat.numel() * 128,
        ),
    ]  # fmt: skip
