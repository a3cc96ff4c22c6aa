"""What a process can lock about itself, from limits to Landlock. Standard library only; runs before torch."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Any

from . import seccomp

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_V3 = 0x20080522
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
"""Landlock ABI -> every file system right that it knows."""
READ_RIGHTS = 0x1 | 0x4 | 0x8
"""Execute, read file, read folder."""
FILE_ONLY = 0x1 | 0x2 | 0x4 | 0x4000 | 0x8000
"""Rights that may be granted on something that is not a folder."""
libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def enter(plan: dict[str, Any]) -> None:
    """Lock this process for good.

    Args:
        plan: `uid` to drop to (None: stay), `limits` by RLIMIT name -> [soft, hard], `landlock`
            {"read": [...], "write": [...]} or None; with "tcp": True in it connections are left to the network;
            `seccomp`: whether system calls are filtered, where they can be.

    Raises:
        OSError: the kernel refused a step; a worker that cannot be confined as planned must not go on.
    """
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123  if memory runs out, not the judge
            file.write("1000")
    except OSError:
        pass
    if plan["uid"] is not None:
        _become(plan["uid"])
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if plan["landlock"] is not None:
        _landlock(**plan["landlock"])
    for name, (soft, hard) in plan["limits"].items():
        limit = getattr(resource, name)
        _, highest = resource.getrlimit(limit)
        if highest != resource.RLIM_INFINITY:
            soft, hard = min(soft, highest), min(hard, highest)
        resource.setrlimit(limit, (soft, hard))
    if plan.get("seccomp"):
        seccomp.install()


def landlock_abi() -> int:
    """Version of Landlock that the kernel offers; 0 if none."""
    return max(0, int(libc.syscall(LANDLOCK_CREATE, None, 0, 1)))


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _prctl(PR_SET_DUMPABLE, 1)  # the change of user made /proc/self unreadable to ourselves


def _prctl(option: int, value: int) -> None:
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def _drop_capabilities() -> None:
    header = _CapabilityHeader(CAPABILITY_V3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(ctypes.byref(header), nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _landlock(read: list[str], write: list[str], *, tcp: bool = False) -> None:
    abi = landlock_abi()
    if abi == 0:
        return
    rights = FILE_RIGHTS[min(abi, max(FILE_RIGHTS))]
    ruleset = _Ruleset(rights, 0x3 if abi >= 4 and not tcp else 0, 0x3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    handle = libc.syscall(LANDLOCK_CREATE, ctypes.byref(ruleset), size, 0)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    for paths, access in ((read, READ_RIGHTS), (write, rights)):
        for path in paths:
            _allow(handle, path, access & rights)
    if libc.syscall(LANDLOCK_RESTRICT, handle, 0) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(handle)


def _allow(handle: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not there, or not for us: nothing to allow
        return
    if not os.path.isdir(path):  # noqa: PTH112
        access &= FILE_ONLY
    rule = _PathRule(access, fd)
    if libc.syscall(LANDLOCK_ADD, handle, 1, ctypes.byref(rule), 0) != 0:
        raise OSError(ctypes.get_errno(), f"landlock_add_rule({path})")
    os.close(fd)
