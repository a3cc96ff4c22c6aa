"""The catalog's lines, in three tables: the whole program, its kernels, its leftover operators."""

from __future__ import annotations

from collections.abc import Iterator

from kernelskill.features.entry import FactEntry, Kind, Subject
from kernelskill.records import Scalar
from kernelskill.records.facts import Origin

_Line = tuple[str, Kind, Origin, str, str]
_CHOICES: dict[str, tuple[Scalar, ...]] = {
    "target": ("cpu", "cuda"),
    "floor_bound": ("memory", "compute", "overhead"),
    "wrapper": ("", "compile"),
    "kernel_kind": ("map", "reduce", "row", "strided", "scan", "pool"),
    "kernel_bound": ("memory", "compute", "latency", "overhead"),
    "vector_bits_used": (16, 32, 64, 128, 256, 512),
    "schedule_vector_bits": (128, 256, 512),
}

_PROGRAM: tuple[_Line, ...] = (
    ("target", "text", "parsed", "", "device that is written for"),
    ("threads", "int", "parsed", "", "threads that every arm runs with"),
    ("floor_ms", "float", "parsed", "ms", "time below which no program can go on this machine"),
    ("floor_bound", "text", "parsed", "", "what sets the floor"),
    ("base_ms", "float", "measured", "ms", "time of the base by the judge's clock"),
    ("floor_share_ratio", "float", "measured", "", "floor_ms / base_ms: 1 = nothing left to gain"),
    ("best_stock_ratio", "float", "measured", "", "base time / best stock time, paired if possible: below 1 = faster"),
    ("footprint_bytes", "int", "parsed", "bytes", "inputs and state read, and results written, each once"),
    ("in_cache", "bool", "parsed", "", "footprint fits the second-level caches of all threads"),
    ("overhead_share_ratio", "float", "measured", "", "share of a call spent outside of kernels and operators"),
    ("kernels", "int", "parsed", "", "kernels of our own"),
    ("operators_left", "int", "parsed", "", "operators that compute or move data and are not in kernels yet"),
    ("count_elementwise", "int", "parsed", "", "elementwise operators left"),
    ("count_reduction", "int", "parsed", "", "reductions left that are part of no softmax or normalisation"),
    ("count_softmax", "int", "parsed", "", "softmax, log-softmax and logsumexp left, whole or decomposed"),
    ("count_norm", "int", "parsed", "", "normalisations left, whole or decomposed: a fold goes back over its row"),
    ("count_scan", "int", "parsed", "", "cumulative sums, products, maxima left"),
    ("count_pool", "int", "parsed", "", "pooling operators left"),
    ("count_conv", "int", "parsed", "", "convolutions left, transposed ones too"),
    ("count_matmul", "int", "parsed", "", "matrix products left, attention and recurrent layers too"),
    ("count_noop", "int", "parsed", "", "nodes that simplification removes"),
    ("count_dead", "int", "parsed", "", "nodes whose results nobody uses"),
    ("is_training", "bool", "parsed", "", "captured in training mode"),
    ("has_state_updates", "bool", "parsed", "", "forward rewrites buffers"),
    ("wrapper", "text", "parsed", "", "compile: the reference under torch.compile instead of the graph"),
)  # fmt: skip
_KERNEL: tuple[_Line, ...] = (
    ("kernel_kind", "text", "parsed", "", "shape of its loops"),
    ("rows", "int", "parsed", "", "rows that are independent of each other (elements, in a map)"),
    ("row_length", "int", "parsed", "elements", "elements of a row; 1 in a map"),
    ("inner_length", "int", "parsed", "elements", "length of the innermost, contiguous loop"),
    ("passes", "int", "parsed", "", "walks over each row"),
    ("bytes", "int", "parsed", "bytes", "distinct bytes read and written"),
    ("transcendentals", "int", "parsed", "", "transcendental functions evaluated in a call"),
    ("flops", "int", "parsed", "", "other arithmetic in a call"),
    ("bandwidth_gb_per_s", "float", "measured", "GB/s", "bytes / time_us"),
    ("bandwidth_share_ratio", "float", "measured", "", "time that its bytes need at the ceiling / time_us"),
    ("exp_share_ratio", "float", "measured", "", "time that its transcendentals need at the ceiling / time_us"),
    ("flops_share_ratio", "float", "measured", "", "time that its arithmetic needs at the ceiling / time_us"),
    ("parallel_efficiency_ratio", "float", "measured", "", "one-thread time / (threads * time_us)"),
    ("kernel_bound", "text", "measured", "", "what its time is spent on"),
    ("vector_bits_used", "int", "parsed", "bits", "widest register that its loops compute with"),
    ("libm_calls", "int", "parsed", "", "calls of libm in its innermost loops"),
    ("spills", "int", "parsed", "", "vector moves to and from the stack in its loops"),
    ("gathers", "int", "parsed", "", "indexed vector loads in its loops"),
    ("schedule_threads", "int", "parsed", "", "threads it may use; 0 = all"),
    ("schedule_vector_bits", "int", "parsed", "bits", "vector width asked for"),
    ("schedule_unroll", "int", "parsed", "", "vectors in flight in a map loop"),
    ("schedule_accumulators", "int", "parsed", "", "independent accumulators of a reduction"),
    ("schedule_block", "int", "parsed", "elements", "inner elements kept in registers or cache at a time"),
    ("schedule_nontemporal", "bool", "parsed", "", "stores bypass the cache"),
    ("schedule_split", "int", "parsed", "", "parts that a row is split into; 0 = automatic, 1 = never"),
    ("gpu_block", "int", "parsed", "elements", "elements that a program on a GPU holds; 0 = derived from the shape"),
    ("gpu_rows", "int", "parsed", "", "rows that a program folds side by side; 0 = derived"),
    ("gpu_num_warps", "int", "parsed", "", "warps of a program; 0 = derived"),
    ("gpu_num_stages", "int", "parsed", "", "loads in flight ahead of a loop; 0 = the compiler's choice"),
    ("gpu_split", "int", "parsed", "", "programs that share a row; 0 = derived, 1 = never"),
    ("registers", "int", "parsed", "", "registers of a thread, of the largest function that was compiled for it"),
    ("shared_bytes", "int", "parsed", "bytes", "shared memory of a program"),
    ("warps", "int", "parsed", "", "warps of a program as compiled"),
    ("occupancy_ratio", "float", "parsed", "", "warps that fit a multiprocessor by registers and shared memory"),
)  # fmt: skip
_BOTH: tuple[_Line, ...] = (
    ("time_us", "float", "measured", "us", "median time in a call of forward"),
    ("share_ratio", "float", "measured", "", "its share of a call of forward"),
)
_OPERATOR: tuple[_Line, ...] = (("op", "text", "parsed", "", "ATen overload of the node"),)


def _entries() -> Iterator[FactEntry]:
    tables: tuple[tuple[tuple[_Line, ...], tuple[Subject, ...]], ...] = (
        (_PROGRAM, ("program",)),
        (_KERNEL, ("kernel",)),
        (_BOTH, ("kernel", "operator")),
        (_OPERATOR, ("operator",)),
    )
    for lines, subjects in tables:
        for name, kind, origin, unit, meaning in lines:
            yield FactEntry(
                name=name,
                kind=kind,
                subjects=subjects,
                origin=origin,
                meaning=meaning,
                unit=unit,
                choices=_CHOICES.get(name, ()),
            )


ENTRIES = tuple(_entries())
