"""Start a worker in namespaces of its own, or just under a supervisor; no packages, no bubblewrap.

    python -I -S launch.py '<json>'

With a `root` the worker gets its own file system, network, process ids and IPC; this process stays outside, a second
one is the first process inside, and the kernel kills everything inside when that one ends. Without, this process
adopts all orphans of the worker, so that the judge finds every process under it.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

CLONE = {
    "mount": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_SLAVE = 1, 2, 4, 4096, 16384, 1 << 19
MNT_DETACH = 2
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR = 442
AT_RECURSIVE, AT_FDCWD, ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 0x8000, -100, 1, 2, 4
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the order and carry it out; the exit code is the worker's (128 + signal if it was killed)."""
    order = json.loads(sys.argv[1])
    argv = order["argv"]
    sys.exit(carry_out(order, lambda: os.execv(argv[0], argv)))


def carry_out(order: dict[str, Any], work: Callable[[], object]) -> int:
    """Confine as ordered, have a child do the work, stay until it ends, and remove its scratch folder.

    Args:
        order: `judge` (id of the process to die with), `root`, `scratch`, `user_namespace`, `network`, `mounts`;
            optionally `loopback` (whether an own network has a loopback device that works).
        work: what the innermost child does; must not return.

    Returns:
        The worker's exit code (128 + signal if it was killed).
    """
    code = _under_supervision(order, work) if order["root"] is None else _in_namespaces(order, work)
    shutil.rmtree(order["scratch"], ignore_errors=True)  # the judge may have died just before the worker did
    return code


def _under_supervision(order: dict[str, Any], work: Callable[[], object]) -> int:
    uid, gid = os.getuid(), os.getgid()
    _adopt_orphans(order["judge"], order["scratch"])
    if order.get("network"):
        _unshare(("user", "net") if order["user_namespace"] else ("net",))
        if order["user_namespace"]:
            _keep_own_ids(uid, gid)
        if order.get("loopback"):
            _bring_loopback_up()
    code = _wait_for(_start(work))
    _kill_below()
    return code


def _in_namespaces(order: dict[str, Any], work: Callable[[], object]) -> int:
    uid, gid = os.getuid(), os.getgid()
    _unshare(("user", "pid") if order["user_namespace"] else ("pid",))
    if order["user_namespace"]:
        _keep_own_ids(uid, gid)
    signal.signal(signal.SIGTERM, lambda *_: _kill_all(order["scratch"]))
    _die_with(order["judge"], signal.SIGTERM)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _die_with(None, signal.SIGKILL)
        _unshare(("mount", "uts", "ipc", "net"))
        _enter_root(order["root"], order["mounts"])
        os._exit(_wait_for(_start(work)))
    return _wait_for(child)


def _adopt_orphans(judge: int, scratch: str) -> None:
    _check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
    signal.signal(signal.SIGTERM, lambda *_: _kill_all(scratch))
    _die_with(judge, signal.SIGTERM)


def _kill_all(scratch: str) -> NoReturn:
    """The judge died: kill every process under this one until none is left, and remove what they wrote."""
    _kill_below()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def _kill_below() -> None:
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii").split()]


def _die_with(parent: int | None, signal_number: int) -> None:
    _check(libc.prctl(PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0), "prctl")
    if parent is not None and os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _start(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001  whatever it was, what stands above must not run here as well
            traceback.print_exc()
            os._exit(1)
    return child


def _wait_for(worker: int) -> int:
    """Reap everything until the worker ends; its exit code."""
    while True:
        try:
            pid, status = os.wait()
        except InterruptedError:
            continue
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _unshare(names: tuple[str, ...]) -> None:
    _check(libc.unshare(sum(CLONE[name] for name in names)), "unshare")


def _bring_loopback_up() -> None:
    """In an empty network, let processes speak with each other."""
    request = struct.pack("16sh14x", b"lo", IFF_UP)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def _keep_own_ids(uid: int, gid: int) -> None:
    """Inside a new user namespace, be who one was outside."""
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


def _enter_root(root: str, mounts: list[dict[str, Any]]) -> None:
    """Build the new root on a tmpfs over `root`, and make it `/`."""
    _mount("none", "/", None, MS_REC | MS_SLAVE)
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    for mount in mounts:
        _place(mount, root + mount["dest"])
    os.chdir(root)
    number = SYS_PIVOT_ROOT[os.uname().machine]
    _check(libc.syscall(number, b".", b"."), "pivot_root")
    _check(libc.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")
    _read_only("/", recursive=False)


def _place(mount: dict[str, Any], dest: str) -> None:
    kind, source = mount["kind"], mount["source"]
    if kind == "link":
        Path(dest).symlink_to(source)
        return
    if kind in ("ro", "rw") and not Path(source).is_dir():
        Path(dest).parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(dest, os.O_CREAT | os.O_WRONLY, 0o600))
    else:
        Path(dest).mkdir(parents=True, exist_ok=True)
    if kind == "proc":
        _mount("proc", dest, "proc", MS_NOSUID | MS_NODEV)
    elif kind == "tmpfs":
        _mount("tmpfs", dest, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={mount['nbytes']}")
    elif kind == "dev":
        _make_devices(dest)
    else:
        _mount(source, dest, None, MS_BIND | MS_REC)
        if kind == "ro":
            _read_only(dest, recursive=True)


def _make_devices(dest: str) -> None:
    _mount("tmpfs", dest, "tmpfs", MS_NOSUID, "mode=0755,size=64k")
    for name in DEVICES:
        if Path(f"/dev/{name}").exists():
            os.close(os.open(f"{dest}/{name}", os.O_CREAT | os.O_WRONLY, 0o600))
            _mount(f"/dev/{name}", f"{dest}/{name}", None, MS_BIND)
    for name, source in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        Path(f"{dest}/{name}").symlink_to(f"/proc/self/{source}")


def _mount(source: str, dest: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, dest, kind)]
    done = libc.mount(*words, ctypes.c_ulong(flags), None if options is None else options.encode())
    _check(done, f"mount {source} on {dest}")


def _read_only(dest: str, *, recursive: bool) -> None:
    attributes = (ctypes.c_uint64 * 4)(ATTR_RDONLY | ATTR_NOSUID | (ATTR_NODEV if recursive else 0), 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    done = libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, dest.encode(), flags, ctypes.byref(attributes), 32)
    _check(done, f"read-only {dest}")


def _check(done: int, what: str) -> None:
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


if __name__ == "__main__":
    main()
