"""A filter on system calls that generated code has no business with. Standard library only; runs before torch.

Classic BPF, checked by the kernel at every call (Linux, Documentation/userspace-api/seccomp_filter.rst). Numbers of
calls are those of the kernel's tables for each processor.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

PR_SET_SECCOMP, MODE_FILTER = 22, 2
LOAD, JUMP_EQUAL, JUMP_LEAST, JUMP_ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCHITECTURE, FIRST = 0, 4, 16
"""Where the call's number, the processor and the first argument (its low half) lie in `struct seccomp_data`."""
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000
"""Bit of calls by the 32-bit interface of x86-64, which has numbers of its own."""
AF_UNIX = 1
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEW* among the flags of clone."""
EVERYWHERE = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "process_mrelease": 448,
}  # fmt: skip
"""Calls of one number on every processor."""
DENIED = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "mount": 165, "umount2": 166,
        "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272, "keyctl": 250, "add_key": 248,
        "request_key": 249, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "init_module": 175,
        "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320, "reboot": 169,
        "swapon": 167, "swapoff": 168, "open_by_handle_at": 304, "acct": 163, "quotactl": 179, "settimeofday": 164,
        "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "sethostname": 170, "setdomainname": 171,
        "iopl": 172, "ioperm": 173, "fanotify_init": 300,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "mount": 40, "umount2": 39,
        "pivot_root": 41, "chroot": 51, "setns": 268, "unshare": 97, "keyctl": 219, "add_key": 217,
        "request_key": 218, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "init_module": 105,
        "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294, "reboot": 142,
        "swapon": 224, "swapoff": 225, "open_by_handle_at": 265, "acct": 89, "quotactl": 60, "settimeofday": 170,
        "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171, "sethostname": 161, "setdomainname": 162,
        "fanotify_init": 262,
    },
}  # fmt: skip
ABSENT = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435}
"""Calls that look as if the kernel had none: whoever uses them knows an older way. (clone3 hides its flags.)"""
SOCKET = {"x86_64": 41, "aarch64": 198}
CLONE = {"x86_64": 56, "aarch64": 220}

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def is_known() -> bool:
    """Whether there is a table for this processor."""
    return platform.machine() in DENIED


def install() -> bool:
    """Filter every later call of this thread and its children, for good; whether that worked.

    No new privileges must have been ruled out before.
    """
    if not is_known():
        return False
    program = rules(platform.machine())
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    memory = ctypes.create_string_buffer(code, len(code))
    described = _Program(len(program), ctypes.cast(memory, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(described), 0, 0) == 0)


def rules(machine: str) -> list[Instruction]:
    """The filter for a processor."""
    program: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        program += [(JUMP_LEAST, 0, 1, X32), _refused(errno.EPERM)]
    for number in sorted((DENIED[machine] | EVERYWHERE).values()):
        program += [(JUMP_EQUAL, 0, 1, number), _refused(errno.EPERM)]
    for number in ABSENT.values():
        program += [(JUMP_EQUAL, 0, 1, number), _refused(errno.ENOSYS)]
    program += [
        (JUMP_EQUAL, 0, 3, SOCKET[machine]),
        (LOAD, 0, 0, FIRST),
        (JUMP_EQUAL, 4, 0, AF_UNIX),
        _refused(errno.EPERM),
        (JUMP_EQUAL, 0, 2, CLONE[machine]),
        (LOAD, 0, 0, FIRST),
        (JUMP_ANY, 1, 0, NEW_NAMESPACES),
        (RETURN, 0, 0, ALLOW),
        _refused(errno.EPERM),
    ]
    return program


def _refused(number: int) -> Instruction:
    return (RETURN, 0, 0, ERRNO | number)
