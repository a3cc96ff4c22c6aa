"""Times the machine's limits in a process of its own: `python -I measure.py <library> <threads>` prints JSON.

It runs with the environment of a judged worker, so that threads wait and wake as they do there. All points are
visited in turn, several times over, and the best of each counts: a neighbour's burst spoils one visit, not a point.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable

FOOTPRINTS = tuple(2**power for power in (15, 17, 19, 21, 23, 25, 28))
"""Bytes read and written in all: 32 KB to 256 MB."""
TRIAL_S = 0.0015
"""Shortest time that one trial is worth measuring over."""
SAMPLES = 24
"""Visits of the points that take no time."""


def rate(trial: Callable[[int], float], amount: float) -> float:
    """Amount per second of `trial(rounds)`, over enough rounds to be seen by the clock."""
    rounds = 1
    seconds = trial(rounds)
    while seconds < TRIAL_S and rounds < 1 << 24:
        rounds = max(2 * rounds, int(rounds * TRIAL_S / max(seconds, 1e-7)))
        seconds = trial(rounds)
    return amount * rounds / seconds


def bandwidths(library: ctypes.CDLL, threads: int) -> dict[str, dict[str, float]]:
    """GB/s of copying, reading and writing at each footprint; a smaller one is never worse than a larger."""
    base = library.make(FOOTPRINTS[-1], threads)
    if not base:
        raise MemoryError(f"{FOOTPRINTS[-1]} bytes for measuring bandwidth")
    best: dict[str, dict[int, float]] = {
        name: dict.fromkeys(FOOTPRINTS, 0.0) for name in ("copy", "read", "write")
    }

    def note(name: str, size: int, trial: Callable[[int], float]) -> None:
        best[name][size] = max(best[name][size], rate(trial, size) / 1e9)

    def visit(size: int, used: int) -> None:
        half = size // 2
        note("copy", size, lambda n: library.time_copy(base, base + half, half, n, 0, used))
        note("copy", size, lambda n: library.time_copy(base, base + half, half, n, 1, used))
        note("write", size, lambda n: library.time_write(base, size, n, 0, used))
        note("write", size, lambda n: library.time_write(base, size, n, 1, used))
        note("read", size, lambda n: library.time_read(base, size, n, used))

    for used in (threads, threads, threads, 1):  # threads that share a core may be slower than one of them
        for size in FOOTPRINTS:
            visit(size, used)
    best["read"] = {size: max(value, best["copy"][size]) for size, value in best["read"].items()}
    for points in best.values():
        least = 0.0
        for size in reversed(FOOTPRINTS):
            least = points[size] = max(points[size], least)
    return {name: {str(size): value for size, value in points.items()} for name, points in best.items()}


def arithmetic(trial: Callable[[int, int], float], amount: float, threads: int) -> float:
    """Billions per second of work of which each thread does `amount` a round; the best number of threads counts."""

    def once(used: int) -> float:
        return used * rate(lambda rounds: trial(rounds, used), amount) / 1e9

    return max(once(used) for _ in range(SAMPLES) for used in (threads, 1))


def call_us(library: ctypes.CDLL) -> float:
    """Microseconds of one call from Python with two pointers and a size."""
    nothing = library.nothing
    nothing.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
    return best_us(lambda: nothing(0, 0, 1), 2000)


def operator_us() -> float:
    """Microseconds that torch takes to add two tiny tensors."""
    import torch

    with torch.no_grad():
        x = torch.ones(8)
        return best_us(lambda: torch.add(x, x), 500)


def best_us(action: Callable[[], object], calls: int) -> float:
    """Least mean time of a call, over several batches of calls."""
    best = float("inf")
    for _ in range(SAMPLES):
        began = time.perf_counter()
        for _ in range(calls):
            action()
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / calls


def open_library(path: str) -> ctypes.CDLL:
    """The compiled measuring functions, with their types."""
    library = ctypes.CDLL(path)
    pointer, size, number = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
    for name, arguments in {
        "time_copy": (pointer, pointer, size, number, number, number),
        "time_read": (pointer, size, number, number),
        "time_write": (pointer, size, number, number, number),
        "time_fma": (size, number),
        "fma_flops": (size,),
        "time_exp": (size, number),
        "time_parallel": (number, number),
    }.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = ctypes.c_double
    library.make.argtypes, library.make.restype = (size, number), pointer
    return library


def main() -> None:
    """Measure everything and print it."""
    library, threads = open_library(sys.argv[1]), int(sys.argv[2])
    moved = bandwidths(library, threads)
    told = {
        "bandwidth_gb_per_s": moved["copy"],
        "read_gb_per_s": moved["read"],
        "write_gb_per_s": moved["write"],
        "fp32_gflops": arithmetic(library.time_fma, library.fma_flops(1), threads),
        "exp_gops": arithmetic(library.time_exp, 4096, threads),
        "parallel_us": 1e6 * min(library.time_parallel(30, threads) / 30 for _ in range(SAMPLES)),
        "call_us": call_us(library),
        "operator_us": operator_us(),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
