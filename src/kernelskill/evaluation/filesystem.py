"""What a worker sees of the disk: compilers, the Python that runs it, a private folder; nothing of the user's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

SCRATCH = "/tmp"
"""Inside, a file system of the worker's own."""
WORKER = Path(__file__).parent / "worker"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/os-release",
)  # fmt: skip
"""Of /etc only what programs need to start; no secrets, no host names."""
HARDWARE = ("/sys/devices/system/cpu", "/sys/devices/system/node")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True)
class Mount:
    """One thing to be seen at `dest`."""

    kind: Literal["ro", "rw", "tmpfs", "proc", "dev", "link"]
    dest: str
    source: str = ""
    nbytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """For the launcher."""
        return asdict(self)


def python_folders() -> list[str]:
    """Folders without which the worker's Python cannot start or import torch, outermost only."""
    found = [Path(sys.prefix), Path(sys.base_prefix), WORKER]
    link = Path(sys.executable)
    while link.is_symlink():  # every step of .venv/bin/python -> python3 -> ... must be seen
        link = link.parent / link.readlink()
        found.append(link.parent.parent)
    torch = torch_folder()
    if torch is not None:
        found.append(torch)
    return outermost([str(path) for path in found] + [str(path.resolve()) for path in found])


def torch_folder() -> Path | None:
    """The folder that torch is imported from, found without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).parent


def outermost(paths: Sequence[str]) -> list[str]:
    """The paths that lie in no other one of them and in no system folder; each once, existing ones only."""
    kept: list[str] = []
    for path in sorted(set(paths), key=len):
        inside = any(Path(path).is_relative_to(other) for other in [*kept, *SYSTEM])
        if not inside and Path(path).exists() and path != "/":
            kept.append(path)
    return kept


def mounts(*, scratch_bytes: int, readable: Sequence[str], writable: Sequence[str]) -> list[Mount]:
    """A whole root for a worker, in order of mounting; the root itself is a read-only tmpfs.

    Args:
        scratch_bytes: size of `SCRATCH`.
        readable: further folders or files to see.
        writable: folders to see and write.
    """
    plan = []
    for folder in SYSTEM:
        path = Path(folder)
        if path.is_symlink():
            plan.append(Mount("link", folder, str(path.readlink())))
        elif path.exists():
            plan.append(Mount("ro", folder, folder))
    plan += [Mount("ro", path, path) for path in (*SETTINGS, *HARDWARE) if Path(path).exists()]
    plan += [
        Mount("proc", "/proc"),
        Mount("dev", "/dev"),
        Mount("tmpfs", "/dev/shm", nbytes=SHARED_MEMORY_BYTES),
        Mount("tmpfs", SCRATCH, nbytes=scratch_bytes),
    ]
    plan += [Mount("ro", path, path) for path in outermost([*python_folders(), *readable])]
    plan += [Mount("rw", path, path) for path in writable]
    return plan


def bwrap_arguments(plan: Sequence[Mount]) -> list[str]:
    """The same root in bubblewrap's words."""
    words: list[str] = []
    made = {Path("/")}
    for mount in plan:
        for parent in reversed(Path(mount.dest).parents):
            if parent not in made:  # left to itself, bubblewrap makes folders that only root may enter
                words += ["--perms", "0755", "--dir", str(parent)]
                made.add(parent)
        made.add(Path(mount.dest))
        if mount.kind == "tmpfs":
            words += ["--perms", "1777", "--size", str(mount.nbytes), "--tmpfs", mount.dest]
        elif mount.kind == "link":
            words += ["--symlink", mount.source, mount.dest]
        elif mount.kind in ("proc", "dev"):
            words += [f"--{mount.kind}", mount.dest]
        else:
            words += ["--ro-bind" if mount.kind == "ro" else "--bind", mount.source, mount.dest]
    return [*words, "--remount-ro", "/"]
