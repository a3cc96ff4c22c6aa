"""Time the kernels inside a call on a GPU, in a worker that is not judged."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch

from .kernels import COPIES, LIBRARY
from .observe import bound_call, timed
from .session import Session

MOST_PTX = 200_000
"""Characters of a function's PTX that are handed on."""


def profile(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """As `steps.handle_profile`, by the device's own clock.

    A kernel's time is that of all launches whose device function carries its name (`_name`, `_name_part`); what other
    operators launched is theirs. `resources` {kernel: {registers, spills, shared_bytes, warps, ptx}}: the largest
    of its compiled functions, where Triton compiled them.
    """
    repeats = message.get("repeats", 5)
    call = bound_call(session, message.get("index", 0))
    module = sys.modules.get(session.module_name)
    names = [name for name in message["kernels"] if callable(getattr(module, name, None))]
    call()
    plain = timed(call, repeats)
    launches, operators = _watched(call, repeats)
    kernels: dict[str, Any] = {name: {"times_us": [0.0], "count": 0} for name in names}
    for launched, (time_us, count) in launches.items():
        owner = owner_of(launched, names)
        if owner:
            kernels[owner]["times_us"][0] += time_us
            kernels[owner]["count"] += count
    ran = {name: seen for name, seen in kernels.items() if seen["count"]}
    return {
        "calls_us": plain,
        "kernels": {name: {**seen, "count": 1} for name, seen in ran.items()},
        "operators": operators,
        "compiled": False,
        "resources": resources(module, names),
        "unknown": [name for name in message["kernels"] if name not in names],
    }


def owner_of(launched: str, names: list[str]) -> str:
    """Which of the names a device function belongs to; "" = none. Who writes by hand may name it as its launcher."""
    owners = [name for name in names if launched in (name, f"_{name}") or launched.startswith(f"_{name}_")]
    return max(owners, key=len, default="")


def _watched(call: Any, repeats: int) -> tuple[dict[str, tuple[float, int]], list[dict[str, Any]]]:
    """Device functions {name: (microseconds, launches)}, and operators that launched library kernels, per call."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as watch:
        for _ in range(repeats):
            call()
    launches: dict[str, tuple[float, int]] = {}
    operators = []
    for entry in watch.key_averages():
        time_us = entry.self_device_time_total / repeats
        if not time_us:
            continue
        if entry.key.startswith("aten::"):
            operators.append({"op": entry.key, "count": entry.count / repeats, "time_us": time_us})
        elif not LIBRARY.search(entry.key) and not entry.key.startswith(COPIES):
            launches[entry.key] = (time_us, max(1, round(entry.count / repeats)))
    return launches, sorted(operators, key=lambda row: -row["time_us"])


def resources(module: ModuleType | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """What Triton's compiler gave to the functions of each kernel, the largest of each; `ptx` is the longest text."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in list(vars(module).items()) if module else []:
        owner = owner_of(name, names)
        for compiled in _compiled(value) if owner else ():
            told = {
                "registers": getattr(compiled, "n_regs", 0),
                "spills": getattr(compiled, "n_spills", 0),
                "shared_bytes": getattr(compiled.metadata, "shared", 0),
                "warps": getattr(compiled.metadata, "num_warps", 0),
            }
            kept = found.setdefault(owner, {**told, "ptx": ""})
            for key, number in told.items():
                kept[key] = max(kept[key], number or 0)
            kept["ptx"] = max(kept["ptx"], str(compiled.asm.get("ptx", ""))[:MOST_PTX], key=len)
    return found


def _compiled(function: Any) -> list[Any]:
    """Compiled forms of a Triton function; none for anything else."""
    try:
        return [one for entry in function.device_caches.values() for one in entry[0].values()]
    except (AttributeError, TypeError, IndexError):
        return []
