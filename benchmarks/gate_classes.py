"""What an expert would do first on each KernelBench task of levels 1 to 3: the table that the gate is held against.

Written by reading the tasks and timing them on an H200, before the gate was asked about any of them. A class is a kind
of gain; each task has one, its largest. `SKILLS` says which skills of the library are that gain.
"""

from __future__ import annotations

SKILLS: dict[str, tuple[str, ...]] = {
    "conv-epilogue": ("fuse-convolution-epilogue",),
    "gemm-epilogue": ("fuse-matmul-epilogue", "tensor-core-matmul"),
    "train-mode-batch-norm": ("restructure-batch-norm",),
    "transposed-conv": ("transposed-convolution-phases",),
    "tensor-core-gemm": ("tensor-core-matmul",),
    "norm": ("fuse-row-normalization",),
    "at-the-roofline": ("leave-single-pass", "stop-at-floor"),
    "conv": ("implicit-gemm-convolution", "channels-last"),
    "algebraic-collapse": ("collapse-linear-fold",),
    "recurrence": ("persistent-recurrence",),
    "pooling": ("direct-pooling",),
    "strided-reduction": ("fuse-reduction",),
    "loss": ("fuse-reduction",),
    "few-channel-conv": ("direct-convolution",),
    "depthwise-conv": ("direct-convolution",),
    "scan": ("single-pass-scan",),
    "attention": ("fused-attention",),
    "elementwise-chain": ("fuse-elementwise",),
    "constant-result": ("simplify-algebra", "collapse-linear-fold"),
    "structured-product": ("structured-matmul",),
    "softmax": ("online-softmax",),
    "dead-code": ("remove-dead-code",),
    "few-rows-norm": ("fuse-row-normalization",),
    "launch-latency": ("cuda-graphs",),
}
"""Class -> skills that are this gain; one of them among the first three admitted is a hit."""

_TASKS: dict[str, dict[int, str]] = {
    "conv-epilogue": {
        2: "1-8 10 16 20 24-26 31 32 34-36 38 43 46-49 54 57 58 67 69 71 74 82 87 89-91 93 96 100", 3: "4 17 18",
    },
    "gemm-epilogue": {
        2: "9 12 22 28-30 33 37 39-41 45 53 55 56 59 62-64 66 68 70 75 76 81 84 86 88 94 95 97 99", 3: "29 30",
    },
    "train-mode-batch-norm": {1: "33", 2: "11 15 52 73 77", 3: "8-10 13-16 19-27 45-47"},
    "transposed-conv": {1: "57 58 61 64 65 68-75 77-79 81", 2: "78"},
    "tensor-core-gemm": {1: "1-3 6-11 13 16-18", 3: "1-3 33"},
    "norm": {1: "34-39", 2: "17 19 21 27 60 61 79 85 92"},
    "at-the-roofline": {1: "4 5 12 19-22 26-29 31 32 87"},
    "conv": {1: "55 56 62 63 67 76 80", 3: "5-7 11 12"},
    "algebraic-collapse": {2: "13 14 18 42 44 50 51 65 72 98"},
    "recurrence": {3: "34-42"},
    "pooling": {1: "41-46"},
    "strided-reduction": {1: "47-49 51-53"},
    "loss": {1: "94-96 98-100"},
    "few-channel-conv": {1: "50 54 59 60 66"},
    "depthwise-conv": {1: "82-86"},
    "scan": {1: "89-93"},
    "attention": {1: "97", 3: "31 43 44 50"},
    "elementwise-chain": {1: "25 30 88", 3: "48"},
    "constant-result": {2: "23 80 83"},
    "structured-product": {1: "14 15"},
    "softmax": {1: "23 24"},
    "dead-code": {3: "28 49"},
    "few-rows-norm": {1: "40"},
    "launch-latency": {3: "32"},
}  # fmt: skip
"""Class -> level -> tasks, by number in their level."""


def primary() -> dict[str, str]:
    """Task ("level-number") -> its class. Every task of levels 1 to 3 has exactly one."""
    found: dict[str, str] = {}
    for name, levels in _TASKS.items():
        for level, listed in levels.items():
            for part in listed.split():
                first, _, last = part.partition("-")
                for number in range(int(first), int(last or first) + 1):
                    task = f"{level}-{number}"
                    if task in found:
                        raise ValueError(f"{task} is {found[task]} and {name}")
                    found[task] = name
    return found
