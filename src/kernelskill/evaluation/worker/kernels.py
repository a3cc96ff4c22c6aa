"""Which kernels a call runs on the GPU, and how long they take. Advisory: it labels, it never ranks."""

from __future__ import annotations

import contextlib
import re
import statistics
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from .native import own_code
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
COPY_NUMBER = re.compile(r"_\d+$")
"""What a compiler adds to a name that it has given already."""
MOST = 24


def observe(session: Session, message: dict[str, Any], repeats: int) -> dict[str, Any]:
    """As `operators`, by kernels: `operators` names them, slowest first, with device time per call.

    Reply: as `handle_operators`, with `device_us` (time of all kernels and copies, per call), `kernels_us` (without
    copies), `graphed` (whether a CUDA graph was launched) and `own_share_ratio`: the share of kernels that are neither
    known as a library's nor made by a compiler of PyTorch's; None if none was seen.
    """
    call = bound_call(session, message.get("index", 0))
    plain = timed(call, repeats)
    rows, seen, recorded = _kernels(call, repeats)
    total = sum(row["time_us"] for row in rows)
    moved = [row for row in rows if not row["op"].startswith(COPIES)]
    graphed = any(name.startswith(GRAPH) for name in seen)
    texts = own_texts(session) if graphed else None
    known = sum(row["time_us"] for row in moved if is_theirs(row["op"], recorded, texts))
    kernels = sum(row["time_us"] for row in moved)
    return {
        "operators": rows[:MOST],
        "call_us": statistics.median(plain),
        "operators_us": known,
        "device_us": total,
        "kernels_us": kernels,
        "own_share_ratio": 1.0 - known / kernels if kernels > 0 else None,
        "compiled": any(name.startswith(COMPILED) for name in seen),
        "graphed": graphed,
        **beside(session, call),
    }


def is_theirs(kernel: str, recorded: Container[str], texts: Sequence[bytes] | None = None) -> bool:
    """Whether a kernel comes with PyTorch, or was made by one of its compilers.

    torch.compile and TorchScript's fuser record an operator by the name of the kernel that they launch; whoever
    launches a kernel of his own records none.

    Args:
        kernel: its name on the GPU.
        recorded: names of operators.
        texts: where the names of the candidate's own kernels stand. In a graph nothing is recorded, so there a kernel
            must be among them to count as its own.
    """
    if LIBRARY.search(kernel) or kernel in recorded or COPY_NUMBER.sub("", kernel) in recorded:
        return True
    if texts is None:
        return False
    name = bare(kernel)
    # As it is defined in a source, and as symbols of C++ (Itanium ABI) and of C.
    forms = (f" {name}(".encode(), f"{len(name)}{name}".encode(), f"\0{name}\0".encode())
    return not any(form in text for text in texts for form in forms)


def bare(kernel: str) -> str:
    """relu, of "void mine::relu<float>(float const*, int)"."""
    words = kernel.replace("(anonymous namespace)::", "").split("(")[0].split("<")[0].split()
    return words[-1].rpartition("::")[2] if words else kernel


def own_texts(session: Session) -> list[bytes]:
    """What the candidate has written or built: its source, and machine code of its own."""
    texts = []
    for path in (*session.candidate_files, *(item.path for item in own_code(session.scratch))):
        with contextlib.suppress(OSError):
            texts.append(Path(path).read_bytes())
    return texts


def _kernels(call: Any, repeats: int) -> tuple[list[dict[str, Any]], set[str], set[str]]:
    """Kernels and copies with microseconds per call, slowest first; names of all that was seen; those of operators."""
    with PROFILE(activities=[CPU, CUDA]) as profile:
        for _ in range(repeats):
            call()
    rows, seen, recorded = [], set(), set()
    for entry in profile.key_averages():
        seen.add(entry.key)
        on_device = str(getattr(entry, "device_type", "")).endswith("CUDA")
        if getattr(entry, "is_user_annotation", False) or entry.key.startswith(COMPILED):
            continue
        if not on_device:
            recorded.add(entry.key)
            continue
        time_us = entry.self_device_time_total / repeats
        rows.append({"op": entry.key, "count": entry.count / repeats, "time_us": time_us})
    rows.sort(key=lambda row: -row["time_us"])
    return rows, seen, recorded
