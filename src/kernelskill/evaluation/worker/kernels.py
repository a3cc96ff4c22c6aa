"""Which kernels a call runs on the GPU, and how long they take. Advisory: it labels, it never ranks."""

from __future__ import annotations

import re
import statistics
from typing import Any

from .observe import COMPILED, CPU, CUDA, PROFILE, beside, bound_call, timed
from .session import Session

LIBRARY = re.compile(
    r"at::native|at::cuda|cublas|cutlass|cudnn|nvjet|gemv|splitKreduce|\bsm\d\d_|ampere_|hopper_|volta_|turing_"
    r"|flash_fwd|fmha|cub::|thrust::|vectorized_elementwise|elementwise_kernel|xmma|cask|implicit_convolve|fft",
    re.I,
)
"""Parts of the names of kernels that come with PyTorch and its libraries."""
COPIES = ("Memcpy", "Memset")
GRAPH = "cudaGraphLaunch"
FUSER = "TensorExpr"
"""What TorchScript's fuser calls the parts that it compiles."""
MOST = 24


def observe(session: Session, message: dict[str, Any], repeats: int) -> dict[str, Any]:
    """As `operators`, by kernels: `operators` names them, slowest first, with device time per call.

    Reply: as `handle_operators`, with `device_us` (time of all kernels, per call), `graphed` (whether a CUDA graph was
    launched) and `own_share_ratio` as the share of kernels that no library is known by; None if none was seen.
    """
    call = bound_call(session, message.get("index", 0))
    plain = timed(call, repeats)
    rows, seen = _kernels(call, repeats)
    total = sum(row["time_us"] for row in rows)
    moved = [row for row in rows if not row["op"].startswith(COPIES)]
    known = sum(row["time_us"] for row in moved if LIBRARY.search(row["op"]))
    kernels = sum(row["time_us"] for row in moved)
    return {
        "operators": rows[:MOST],
        "call_us": statistics.median(plain),
        "operators_us": known,
        "device_us": total,
        "own_share_ratio": 1.0 - known / kernels if kernels > 0 else None,
        "compiled": any(name.startswith(COMPILED) or FUSER in name for name in seen),
        "graphed": any(name.startswith(GRAPH) for name in seen),
        **beside(session, call),
    }


def _kernels(call: Any, repeats: int) -> tuple[list[dict[str, Any]], set[str]]:
    """Kernels and copies with microseconds per call, slowest first, and the names of everything that was seen."""
    with PROFILE(activities=[CPU, CUDA]) as profile:
        for _ in range(repeats):
            call()
    rows, seen = [], set()
    for entry in profile.key_averages():
        seen.add(entry.key)
        on_device = str(getattr(entry, "device_type", "")).endswith("CUDA")
        if not on_device or getattr(entry, "is_user_annotation", False) or entry.key.startswith(COMPILED):
            continue
        time_us = entry.self_device_time_total / repeats
        rows.append({"op": entry.key, "count": entry.count / repeats, "time_us": time_us})
    rows.sort(key=lambda row: -row["time_us"])
    return rows, seen
