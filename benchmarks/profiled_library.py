"""Cases of PyTorch's own kernels, eager: what a program has before anything of it is replaced."""

from __future__ import annotations

from collections.abc import Callable

import torch
from profiled_case import Case


def library_cases(x: torch.Tensor) -> list[Case]:
    """Cases over the n = 2^25 random floats of x, on its device, and over inputs of their own."""
    n, device = x.numel(), x.device
    functional = torch.nn.functional
    image, wide = x.view(32, 64, 128, 128), x.view(4096, 8192)
    classes = torch.randint(0, 8192, (4096,), device=device)
    taps = torch.randn(64, 1, 3, 3, device=device)
    maps, mixing = torch.randn(32, 256, 56, 56, device=device), torch.randn(256, 256, 1, 1, device=device)
    left, right = (torch.randn(256, 256, 256, device=device) for _ in range(2))
    a, b = (torch.randn(4096, 4096, device=device).bfloat16() for _ in range(2))
    query, key, value = (torch.randn(8, 16, 2048, 64, device=device).bfloat16() for _ in range(3))
    tiny, scores = torch.randn(1024, device=device), torch.randn(128, 1000, device=device)
    pairs = 8 * 16 * 2048 * 2048
    return [
        # Its logarithms of probabilities are a tensor of their own.
        Case("cross_entropy", lambda: functional.cross_entropy(wide, classes), 4 * n, 4 * n, 4.0 * n, n),
        Case(
            "depthwise_conv", lambda: functional.conv2d(image, taps, padding=1, groups=64), 4 * n, 4 * n, 18.0 * n
        ),
        Case(
            "pointwise_conv", lambda: functional.conv2d(maps, mixing), maps.nbytes + mixing.nbytes, maps.nbytes,
            2.0 * maps.numel() * 256,
        ),
        Case("batched_product", lambda: left @ right, 2 * left.nbytes, left.nbytes, 2.0 * left.numel() * 256),
        Case("bf16_product", lambda: a @ b, 2 * a.nbytes, a.nbytes, 2.0 * 4096**3),
        Case(
            "attention", lambda: functional.scaled_dot_product_attention(query, key, value),
            3 * query.nbytes, query.nbytes, 4.0 * 64 * pairs, 1.0 * pairs,
        ),
        Case(
            "to_channels_last", lambda: image.contiguous(memory_format=torch.channels_last), 4 * n, 4 * n, is_map=True
        ),
        Case("tiny_chain", chain(tiny), 16 * tiny.nbytes, 16 * tiny.nbytes, 16.0 * 1024, is_map=True),
        Case(
            "small_softmax", lambda: torch.softmax(scores, 1), scores.nbytes, scores.nbytes,
            4.0 * scores.numel(), scores.numel(),
        ),
    ]  # fmt: skip


def chain(tiny: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Sixteen sums one after the other, each a launch."""

    def call() -> torch.Tensor:
        result = tiny
        for _ in range(16):
            result = result + 1.0
        return result

    return call
