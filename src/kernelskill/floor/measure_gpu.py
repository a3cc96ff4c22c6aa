"""Times a GPU's limits in a process of its own: `python -I measure_gpu.py <device index>` prints JSON.

Every rate is that of a replayed CUDA graph of many launches, so the host's part is left out; the best of several
visits counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

FOOTPRINTS = tuple(2**power for power in (20, 22, 24, 26, 28, 30, 32))
"""Bytes read and written in all: 1 MB to 4 GB."""
BURST_BYTES = 1 << 32
"""Bytes that the launches of one graph move, about."""
VISITS = 5
EXPONENTIALS_PER_CYCLE = 16
"""Special-function results per cycle and multiprocessor, compute capability 7.0 to 10.0 (CUDA C++ programming guide,
arithmetic throughput)."""
MATRIX = 8192
SPLIT_PRODUCTS = 3
"""TF32 products that one product of float32 accuracy is split into."""


def seconds(launch: Callable[[], Any], count: int) -> float:
    """Least time of one launch, out of graphs of `count`."""
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch()
    best = float("inf")
    for _ in range(VISITS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3 / count)
    return best


def bandwidths() -> dict[str, dict[str, float]]:
    """GB/s of copying, reading and writing at each footprint that memory holds; never worse than at a larger one."""
    free = torch.cuda.mem_get_info()[0]
    sizes = [size for size in FOOTPRINTS if size <= free // 4]
    memory = torch.zeros(sizes[-1] // 4, dtype=torch.float32, device="cuda")
    best: dict[str, dict[str, float]] = {"copy": {}, "read": {}, "write": {}}
    least = dict.fromkeys(best, 0.0)
    for size in reversed(sizes):
        count = max(2, min(256, BURST_BYTES // size))
        whole, source, target = memory[: size // 4], memory[: size // 8], memory[size // 8 : size // 4]
        actions: dict[str, Callable[[], Any]] = {
            # A kernel: copying as such goes to the copy engines, which are slower.
            "copy": partial(torch.neg, source, out=target),
            "read": partial(torch.sum, whole),
            "write": whole.zero_,
        }
        for name, action in actions.items():
            least[name] = max(least[name], size / seconds(action, count) / 1e9)
            best[name][str(size)] = least[name]
    best["read"] = {size: max(value, best["copy"][size]) for size, value in best["read"].items()}
    return best


def products_gflops() -> tuple[float, float]:
    """Rates of products of float32 accuracy (the library's own, or three TF32 products for one) and of TF32 ones."""
    a, b = (torch.randn(MATRIX, MATRIX, device="cuda") for _ in range(2))
    work = 2 * MATRIX**3 / 1e9
    torch.backends.cuda.matmul.allow_tf32 = False
    full = work / seconds(lambda: a @ b, 2)
    torch.backends.cuda.matmul.allow_tf32 = True
    rounded = work / seconds(lambda: a @ b, 4)
    return max(full, rounded / SPLIT_PRODUCTS), rounded


def exponentials_gops() -> float:
    """Special-function rate of all multiprocessors at the highest clock, by the data sheet."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    clock_khz = getattr(properties, "clock_rate", 0) or 1_500_000
    return properties.multi_processor_count * EXPONENTIALS_PER_CYCLE * clock_khz / 1e6


def launch_us() -> float:
    """Microseconds between the launches of a graph of empty work: what a kernel costs at least on the device."""
    tiny = torch.zeros(1, device="cuda")
    return 1e6 * seconds(tiny.zero_, 200)


def operator_us() -> float:
    """Microseconds of the host for one small operator."""
    import time

    x = torch.ones(8, device="cuda")
    best = float("inf")
    for _ in range(VISITS):
        began = time.perf_counter()
        for _ in range(500):
            torch.add(x, x)
        best = min(best, (time.perf_counter() - began) / 500)
        torch.cuda.synchronize()
    return 1e6 * best


def main() -> None:
    """Measure everything and print it."""
    torch.cuda.set_device(int(sys.argv[1]))
    properties = torch.cuda.get_device_properties(int(sys.argv[1]))
    with torch.no_grad():
        moved = bandwidths()
        full, rounded = products_gflops()
        told = {
            "bandwidth_gb_per_s": moved["copy"],
            "read_gb_per_s": moved["read"],
            "write_gb_per_s": moved["write"],
            "fp32_gflops": full,
            "tf32_gflops": rounded,
            "exp_gops": exponentials_gops(),
            "parallel_us": 0.0,
            "call_us": launch_us(),
            "operator_us": operator_us(),
            "cache_bytes": properties.L2_cache_size,
            "compute_capability": 10 * properties.major + properties.minor,
        }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
