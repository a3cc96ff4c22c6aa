"""Try to leave the sandbox, and say what did not work. Runs in place of a worker when the judge probes a machine."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path
from typing import Any


def report(plan: dict[str, Any]) -> dict[str, bool]:
    """What holds: files_hidden, network_blocked, pids_hidden, no_capabilities, calls_filtered.

    Raises:
        OSError: a worker could not even do its work here (torch unreadable, scratch not writable, no GPU).
    """
    for name in plan["needed"]:
        next(Path(name).iterdir()) if Path(name).is_dir() else Path(name).read_bytes()
    if plan.get("gpu"):
        _use_gpu()
    Path("writable").write_text("yes", encoding="utf-8")
    return {
        "files_hidden": not _can_read(plan["secret"]),
        "network_blocked": not _can_connect(plan["port"]),
        "pids_hidden": str(Path("/proc/self/ns/pid").readlink()) != plan["pids"]
        and Path("/proc/self").readlink().name == str(os.getpid()),
        "no_capabilities": _effective_capabilities() == 0,
        "calls_filtered": _is_filtered(),
    }


def _use_gpu() -> None:
    """Make a context and allocate, as torch would."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    steps = {
        "cuInit": (0,),
        "cuDeviceGet": (ctypes.byref(device), 0),
        "cuDevicePrimaryCtxRetain": (ctypes.byref(context), device),
        "cuCtxSetCurrent": (context,),
        "cuMemAlloc_v2": (ctypes.byref(address), ctypes.c_size_t(1 << 20)),
    }
    for name, arguments in steps.items():
        code = getattr(driver, name)(*arguments)
        if code:
            raise OSError(f"{name}: CUDA error {code}")


def _can_read(path: str) -> bool:
    try:
        return bool(Path(path).read_bytes())
    except OSError:
        return False


def _can_connect(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


def _is_filtered() -> bool:
    """Whether a call on the list is refused as the filter refuses it: asking for a socket of another family."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return -1
