"""The right answer for each recorded kernel: what holds it back, and what kind of skill it should be offered.

Written before any of the thirty kernels of the second part was recorded, from bytes, arithmetic and launch configuration
alone, on one NVIDIA H200 (4.3 TB/s, 67 TFLOP/s by plain pipes, 4.2 T special functions/s, 132 multiprocessors). The
eighteen of the first part had been recorded earlier, so their rows are known from measurement. Nothing is adjusted to
what was measured later: where an answer was thought wrong it stays, and counts as a miss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Bound = Literal["memory", "compute", "latency", "overhead"]

KINDS: dict[str, tuple[str, ...]] = {
    "leave": ("stop-at-floor", "leave-single-pass"),
    "tile": ("size-gpu-tile", "choose-gpu-warps", "batch-gpu-rows"),
    "programs": ("share-gpu-rows", "split-k-matmul"),
    "in-flight": ("pipeline-loads",),
    "on-chip": ("cuda-cluster-rows",),
    "registers": ("raise-occupancy", "loop-fission"),
    "coalescing": ("coalesce-access",),
    "shared-memory": ("tile-shared-memory", "pad-shared-memory"),
    "math": ("cheaper-math", "approximate-transcendentals", "pack-half-math"),
    "uniform": ("uniform-control-flow",),
    "atomics": ("privatize-atomics",),
    "matrix": ("tensor-core-matmul", "register-tiling"),
    "gemm-convolution": ("implicit-gemm-convolution",),
    "layout": ("channels-last",),
    "direct-convolution": ("direct-convolution",),
    "attention": ("fused-attention",),
    "own-kernel": (
        "fuse-elementwise", "fuse-reduction", "fuse-row-normalization", "online-softmax", "direct-pooling",
        "single-pass-scan",
    ),
    "launches": ("cuda-graphs",),
}  # fmt: skip
"""Kind of skill -> skills that are of it. Skills of no kind (compiling the whole, say) are neither right nor wrong."""


@dataclass(frozen=True)
class Row:
    """A kernel that is ours, as the gate sees it."""

    kind: Literal["map", "reduce", "row", "strided", "scan", "pool"]
    rows: int
    length: int = 1
    passes: int = 1


@dataclass(frozen=True)
class Operator:
    """An operator that is left to a library, or of a kind that nothing is printed for."""

    op: str
    facts: dict[str, int | bool] = field(default_factory=dict)
    """Of a product or a convolution."""


@dataclass(frozen=True)
class Answer:
    """What is right for one kernel."""

    seen_as: Row | Operator
    bound: Bound
    wanted: tuple[str, ...]
    """Kinds of skill, of which at least one is to be admitted."""
    unwanted: tuple[str, ...]
    """Kinds of skill, of which none is to be admitted."""
    reason: str


N = 1 << 25
_AT_CEILING = ("leave", "tile")
_NO_ARITHMETIC = ("math", "uniform")
_LIBRARY = ("atomics", "attention")


def _product(rows: int, columns: int, depth: int, op: str = "aten.mm.default") -> Operator:
    return Operator(op, {"product_rows": rows, "product_columns": columns, "product_depth": depth})


def _convolution(groups: int, channels: int, taps: int) -> Operator:
    facts = {
        "conv_transposed": False, "conv_groups": groups, "conv_channels": channels, "conv_taps": taps, "conv_stride": 1,
    }  # fmt: skip
    return Operator("aten.convolution.default", facts)


FIRST: dict[str, Answer] = {
    "copy": Answer(
        Row("map", N), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing", "programs"), "8 bytes, no arithmetic"
    ),
    "gelu": Answer(
        Row("map", N), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing", "programs"),
        "8 bytes take 1.9 ps, one special function 0.24 ps",
    ),
    "many_exponentials": Answer(
        Row("map", N), "compute", ("math",), ("coalescing", "programs", "leave"),
        "64 special functions take 15 ps, 8 bytes 1.9 ps",
    ),
    "row_softmax": Answer(
        Row("row", 4096, 8192, 2), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "programs"),
        "one read, one write, 4096 programs",
    ),
    "row_softmax_few_warps": Answer(
        Row("row", 1024, 32768, 2), "memory", ("tile", "registers"), _NO_ARITHMETIC,
        "256 elements a thread do not fit its registers; four warps to a program",
    ),
    "layer_norm": Answer(
        Row("row", 8192, 4096, 3), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "programs"), "one read, one write"
    ),
    "strided_sum": Answer(
        Row("strided", 4096, 8192), "latency", ("programs", "in-flight"), (*_NO_ARITHMETIC, "leave"),
        "128 programs of 4 warps, one tile in flight each: a sixteenth of the chip's warps",
    ),
    "few_rows": Answer(
        Row("reduce", 16, N // 16), "latency", ("programs",), (*_NO_ARITHMETIC, "coalescing", "leave"),
        "16 programs on 132 multiprocessors",
    ),
    "transposed_copy": Answer(
        Row("map", N), "memory", ("coalescing",), ("math", "programs", "leave"), "each store has a sector of its own"
    ),
    "gather": Answer(
        Row("map", N), "memory", ("coalescing",), ("math", "programs", "leave"), "each load has a sector of its own"
    ),
    "full_sum": Answer(
        Operator("aten.sum.default"), "memory", ("own-kernel", "leave"), ("matrix", *_LIBRARY), "4 bytes an addition"
    ),
    "cumulative_sum": Answer(
        Operator("aten.cumsum.default"), "latency", ("own-kernel",), ("matrix", "leave", *_LIBRARY),
        "eager's scan has a barrier for every tile and half the warps",
    ),
    "matmul": Answer(
        _product(4096, 4096, 4096), "compute", ("matrix",), ("leave", "gemm-convolution", *_LIBRARY),
        "683 operations a byte, plain pipes",
    ),
    "conv2d": Answer(
        _convolution(1, 64, 9), "compute", ("gemm-convolution", "layout"), ("leave", "direct-convolution", *_LIBRARY),
        "384 operations a byte, plain pipes",
    ),
    "max_pool2d": Answer(
        Operator("aten.max_pool2d_with_indices.default"), "compute", ("own-kernel",), ("matrix", "leave", *_LIBRARY),
        "index arithmetic and bounds for each of nine taps",
    ),
    "small_add": Answer(
        Operator("aten.add.Tensor"), "overhead", ("launches",), ("matrix", *_LIBRARY), "8 KB: less than a launch"
    ),
    "bank_conflicts": Answer(
        Row("map", N // 4), "memory", ("shared-memory",), (*_NO_ARITHMETIC, "programs", "leave"),
        "32 passes over shared memory for each access; global accesses are coalesced",
    ),
    "divergent_loop": Answer(
        Row("map", N // 4), "compute", ("uniform",), ("coalescing", "programs", "leave"),
        "a warp runs as long as its longest lane, both branches",
    ),
}  # fmt: skip
"""Kernels that had been recorded before."""

SECOND: dict[str, Answer] = {
    "batch_statistics": Answer(
        Row("reduce", 64, N // 64), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing"),
        "one read, 2048 programs of 8 warps",
    ),
    "softmax_pieces": Answer(
        Row("reduce", 32, N // 32), "memory", _AT_CEILING, ("uniform", "coalescing"),
        "one read takes 31 us, two special functions an element 16 us; 1024 programs",
    ),
    "row_argmax": Answer(
        Row("reduce", 4096, 8192), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing"), "one read, 4096 programs"
    ),
    "average_pool": Answer(
        Row("pool", N // 4, 4), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "programs"),
        "one read and a quarter written; both by 16 bytes a thread",
    ),
    "group_norm": Answer(
        Row("row", 512, 65536, 2), "memory", ("on-chip",), (*_NO_ARITHMETIC, "coalescing", "leave"),
        "walks each group twice, and the groups at work (over 100 MB) exceed the second-level cache",
    ),
    "masked_scan": Answer(
        Row("scan", 4096, 8192), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing"),
        "9 bytes an element, 32 elements a thread scanned in registers, 4096 programs",
    ),
    "spilling_norm": Answer(
        Row("row", 2048, 16384, 3), "memory", ("registers", "tile"), (*_NO_ARITHMETIC, "coalescing"),
        "64 elements a thread in 40 registers: half of them go through local memory",
    ),
    "column_softmax": Answer(
        Row("strided", 65536, 512, 2), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing"),
        "one read, one write in whole lines of 128 bytes, 2048 programs",
    ),
    "recurrence": Answer(
        Row("scan", 16384, 2048), "latency", ("programs", "in-flight"), (*_NO_ARITHMETIC, "coalescing", "leave"),
        "512 warps in all, each with one load in flight for 2048 steps",
    ),
    "transposed_read": Answer(
        Row("map", N), "memory", ("coalescing",), ("math", "programs", "leave"), "each load has a sector of its own"
    ),
    "strided_write": Answer(
        Row("map", N), "memory", ("coalescing",), ("math", "programs", "leave"), "half of each sector is written"
    ),
    "half_silu": Answer(
        Row("map", 2 * N), "memory", _AT_CEILING, ("uniform", "coalescing", "programs"),
        "4 bytes take 0.94 ps, two special functions 0.48 ps",
    ),
    "outer_sum": Answer(
        Row("map", N), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing", "programs"),
        "operands fit the first-level cache; 134 MB are written",
    ),
    "fused_map": Answer(
        Row("map", N), "memory", _AT_CEILING, (*_NO_ARITHMETIC, "coalescing", "programs"), "16 bytes, 3 operations"
    ),
    "dropout": Answer(
        Row("map", N), "compute", ("math",), ("coalescing", "programs", "leave"),
        "100 integer operations at a rate of 30 T/s take 3.4 ps, 8 bytes 1.9 ps",
    ),
    "scatter_add": Answer(
        Operator("aten.index_add.default"), "memory", ("atomics",), ("matrix", "attention", "leave"),
        "an atomic for each element, all of which the second-level cache performs",
    ),
    "few_bins": Answer(
        Operator("aten.bincount.default"), "latency", ("atomics",), ("matrix", "attention", "leave"),
        "8 M atomics on 16 words: one slice of the cache takes them one after the other, the rest waits",
    ),
    "tf32_product": Answer(
        _product(4096, 4096, 4096), "compute", ("matrix",), ("gemm-convolution", *_LIBRARY), "683 operations a byte"
    ),
    "tall_product": Answer(
        _product(1 << 19, 16, 64), "memory", ("leave",), ("matrix", "programs", *_LIBRARY),
        "6 operations a byte: the left operand is read once",
    ),
    "few_tiles": Answer(
        _product(128, 128, 1 << 16), "latency", ("programs",), ("leave", *_LIBRARY),
        "4 programs, 2048 steps each",
    ),
    "cross_entropy": Answer(
        Operator("aten._log_softmax.default"), "memory", ("own-kernel",), ("matrix", *_LIBRARY),
        "logarithms of probabilities are written and hardly read",
    ),
    "depthwise_conv": Answer(
        _convolution(64, 1, 9), "compute", ("direct-convolution",), ("gemm-convolution", "leave", *_LIBRARY),
        "8 bytes take 1.9 ps; nine taps with index arithmetic and bounds are 100 instructions, 3.4 ps",
    ),
    "pointwise_conv": Answer(
        _convolution(1, 256, 1), "compute", ("gemm-convolution", "layout"), ("direct-convolution", *_LIBRARY),
        "64 operations a byte: 196 us by plain pipes, 48 us of traffic",
    ),
    "batched_product": Answer(
        _product(256, 256, 256, "aten.bmm.default"), "compute", ("matrix",), ("gemm-convolution", *_LIBRARY),
        "43 operations a byte: 128 us by plain pipes, 48 us of traffic",
    ),
    "bf16_product": Answer(
        _product(4096, 4096, 4096), "compute", ("matrix", "leave"), ("gemm-convolution", *_LIBRARY),
        "1365 operations a byte on tensor cores",
    ),
    "attention": Answer(
        Operator("aten.scaled_dot_product_attention.default"), "compute", ("attention", "matrix", "leave"),
        ("gemm-convolution", "atomics"), "1024 operations a byte, scores stay on the chip",
    ),
    "to_channels_last": Answer(
        Operator("aten.clone.default"), "memory", ("own-kernel", "layout", "coalescing"), ("matrix", *_LIBRARY),
        "8 bytes, one side of them strided",
    ),
    "tiny_chain": Answer(
        Operator("aten.add.Tensor"), "overhead", ("launches", "own-kernel"), ("matrix", *_LIBRARY),
        "16 launches of 8 KB each",
    ),
    "small_softmax": Answer(
        Operator("aten._softmax.default"), "overhead", ("launches", "own-kernel"), ("matrix", *_LIBRARY),
        "1 MB takes a quarter of a microsecond",
    ),
    "shared_rows": Answer(
        Row("row", 682, 49152, 2), "memory", (*_AT_CEILING, "registers"), (*_NO_ARITHMETIC, "coalescing"),
        "one read, one write; one block of 32 warps fills a multiprocessor",
    ),
}  # fmt: skip
"""Kernels of which nothing had been recorded when this was written."""

ANSWERS = {**FIRST, **SECOND}
