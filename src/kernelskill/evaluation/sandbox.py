"""How workers are kept from the rest of the machine: the strongest way that works here, tried out, and its name.

Ways, best first: namespaces made by our own launcher (as root, or in a user namespace), which can start workers from
a process that has imported torch already; the same by bubblewrap; Landlock alone; nothing but limits and a
supervisor. Each is started once with a probe inside that tries to break out; what
the probe could not do makes the level:

    full     files, network and process ids are the worker's own, and it holds no capability
    partial  the user's files or the network are out of reach, not all of the above
    plain    limits, an empty environment and a supervisor that kills the whole tree
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernelskill.evaluation.filesystem import (
    DEVICES,
    HARDWARE,
    SCRATCH,
    SETTINGS,
    SYSTEM,
    WORKER,
    bwrap_arguments,
    mounts,
    python_folders,
    torch_folder,
)
from kernelskill.evaluation.worker.confine import landlock_abi
from kernelskill.scratch import prefix

Way = Literal["bubblewrap", "namespaces", "landlock", "plain"]
Level = Literal["full", "partial", "plain"]
UIDS = range(61184, 65500)
"""User ids that belong to nobody; every worker gets another one."""
CACHE_UID = 65500
"""User id of workers that share a trusted cache, which must be able to read what an earlier one wrote."""
PROBE_S = 60.0
FULL = ("files_hidden", "network_blocked", "pids_hidden", "no_capabilities")
"""What must hold for the level `full`; the filter on system calls comes on top where the kernel has it."""


@dataclass(frozen=True)
class Limits:
    """What one worker may use."""

    memory_bytes: int
    """Address space of each process, slots and libraries included (0: no limit). Bare torch takes about 2 GB."""
    cpu_s: int
    """Processor seconds of each process."""
    processes: int
    """Processes and threads of the whole worker."""
    file_bytes: int
    """Size of one file, and of the scratch folder where it is a file system of its own."""
    tree_bytes: int = 0
    """Memory of the whole worker, where a control group can hold it (0: `memory_bytes`)."""
    start_s: float = 60.0
    """Wall seconds until the worker must have answered its first ping."""


@dataclass(frozen=True)
class Launch:
    """Everything needed to start one worker."""

    argv: list[str]
    env: dict[str, str]
    scratch: str
    """The scratch folder as the worker sees it."""
    plan: dict[str, Any]
    """What `worker/main.py` is told."""
    order: dict[str, Any] | None
    """What `worker/launch.py` is told, where that starts the worker."""


@dataclass(frozen=True)
class Sandbox:
    """One way of confining, with what it was seen to hold."""

    way: Way
    own_user: bool
    """Whether workers run under a user id of nobody's (only root can do that)."""
    level: Level = "plain"
    layers: tuple[str, ...] = ()
    """In words: what holds, and why stronger ways were passed over."""
    facts: dict[str, bool] = field(default_factory=dict, hash=False)
    """What the probe saw: files_hidden, network_blocked, pids_hidden, no_capabilities, calls_filtered."""
    gpu: str = ""
    """UUID of the GPU that workers see; empty: none. Such workers keep our process ids (see `cuda/confine.py`)."""
    own_network: bool = False
    """Whether workers get an empty network though they keep everything else of the machine's."""

    @classmethod
    def probe(cls, without: frozenset[Way] = frozenset()) -> Sandbox:
        """The strongest way that works on this machine; tried once per process.

        Args:
            without: ways to pass over.
        """
        return _probe(without)

    @property
    def needs_folder(self) -> bool:
        """Whether a folder outside is needed per worker: as scratch, or to mount a root on."""
        return self.way != "bubblewrap"

    def launch(
        self,
        *,
        host_scratch: Path | None,
        limits: Limits,
        plan: dict[str, Any],
        readable: Sequence[Path] = (),
        cache_folder: Path | None = None,
        number: int = 0,
    ) -> Launch:
        """Command line and environment of a worker.

        Args:
            host_scratch: an empty private folder outside if `needs_folder`; removed by the caller afterwards.
            limits: see `Limits`.
            plan: what main.py needs beside the confinement (role, fd, threads, ...).
            readable: further folders to see.
            cache_folder: a folder to keep between workers, writable.
            number: any number that differs between live workers; picks the user id.
        """
        private = self.way in ("bubblewrap", "namespaces")
        scratch = SCRATCH if private else str(host_scratch)
        uid = None
        if self.own_user:
            uid = CACHE_UID if cache_folder else UIDS[(os.getpid() * 97 + number) % len(UIDS)]
        if uid is not None:
            for folder in (host_scratch, cache_folder):
                if folder is not None:
                    os.chown(folder, uid, uid)
        seen = [str(path) for path in readable]
        kept = [str(cache_folder)] if cache_folder else []
        whole = {
            **plan,
            "scratch": scratch,
            "trusted_cache": str(cache_folder) if cache_folder else None,
            "path": [str(torch_folder())] if torch_folder() else [],
            "confine": {
                "uid": uid,
                "limits": self._limits(limits),
                "seccomp": "script" not in plan,  # a profiler around a worker needs more, and judges nothing
                "landlock": self._landlock(scratch, seen, kept),
            },
        }
        worker = [sys.executable, "-I", str(WORKER / "main.py"), json.dumps(whole)]
        root = mounts(scratch_bytes=limits.file_bytes, readable=seen, writable=kept) if private else []
        if self.way == "bubblewrap":
            order = None
            argv = [*_bwrap(self.own_user), *bwrap_arguments(root), "--chdir", scratch, "--", *worker]
        else:
            order = {
                "judge": os.getpid(),
                "root": str(host_scratch) if private else None,
                "scratch": str(host_scratch),
                "user_namespace": os.geteuid() != 0,
                "network": self.own_network,
                "mounts": [mount.as_json() for mount in root],
            }
            said = json.dumps({**order, "argv": worker})
            argv = [sys.executable, "-I", "-S", str(WORKER / "launch.py"), said]
        settings = environment(scratch, plan["threads"], cache_folder)
        if self.gpu:
            settings |= gpu_environment(self.gpu, settings["PATH"], str(cache_folder or scratch))
        return Launch(argv, settings, scratch, whole, order)

    def _limits(self, limits: Limits) -> dict[str, list[int]]:
        running = 0 if self.way in ("bubblewrap", "namespaces") or self.own_user else _tasks_of(os.getuid())
        processes = limits.processes + running
        found = {
            "RLIMIT_CPU": [limits.cpu_s, limits.cpu_s + 5],
            "RLIMIT_FSIZE": [limits.file_bytes, limits.file_bytes],
            "RLIMIT_NPROC": [processes, processes],
            "RLIMIT_CORE": [0, 0],
        }
        if limits.memory_bytes:
            found["RLIMIT_AS"] = [limits.memory_bytes, limits.memory_bytes]
        return found

    def _landlock(self, scratch: str, readable: list[str], kept: list[str]) -> dict[str, list[str]] | None:
        if self.way == "plain":
            return None
        # The driver writes below /proc/self; what belongs to others there is closed to the worker's user anyway.
        write = [scratch, *kept, *DEVICES, *((*gpu_files(), "/proc") if self.gpu else ())]
        if self.way != "landlock":  # the root holds nothing foreign anyway
            return {"read": ["/"], "write": [*write, "/dev/shm"]}
        read = [*SYSTEM, *SETTINGS, *HARDWARE, *python_folders(), *readable, "/proc"]
        read += ["/sys", os.environ.get("CUDA_HOME", "/usr/local/cuda")] if self.gpu else []
        return {"read": read, "write": write}


def environment(scratch: str, threads: int, cache_folder: Path | None) -> dict[str, str]:
    """The whole environment of a worker; nothing is inherited."""
    caches = str(cache_folder) if cache_folder else scratch
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "worker",
        "LOGNAME": "worker",
        "XDG_CACHE_HOME": f"{scratch}/.cache",
        "TORCH_HOME": f"{scratch}/.cache/torch",
        "TORCH_EXTENSIONS_DIR": f"{scratch}/.cache/torch_extensions",
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def gpu_environment(gpu: str, path: str, caches: str) -> dict[str, str]:
    """What a worker's environment holds beside, so that it sees one GPU and keeps its caches apart.

    Args:
        gpu: UUID.
        path: PATH without the CUDA toolkit.
        caches: folder of compiled kernels.
    """
    found = {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_CACHE_PATH": f"{caches}/cuda", "CUDA_MODULE_LOADING": "LAZY"}
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    if toolkit.exists():
        found |= {"CUDA_HOME": str(toolkit), "PATH": f"{toolkit}/bin:{path}"}
    if "LD_LIBRARY_PATH" in os.environ:  # on some machines the driver lies nowhere else
        found["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return found


def gpu_files() -> list[str]:
    """Device files of the NVIDIA driver, and the shared memory that it uses."""
    return ["/dev/shm", *sorted(str(path) for path in Path("/dev").glob("nvidia*"))]


def _bwrap(own_user: bool) -> list[str]:
    words = [
        "bwrap",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.geteuid() != 0:
        words.append("--unshare-user")
    if own_user:
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return words


def _tasks_of(uid: int) -> int:
    """Processes and threads that a user has now; RLIMIT_NPROC counts them all."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    total += sum(1 for _ in (entry / "task").iterdir())
            except OSError:  # ended meanwhile
                continue
    return total


@cache
def _probe(without: frozenset[Way]) -> Sandbox:
    root = os.geteuid() == 0
    users = (True, False) if root else (False,)
    ways: tuple[Way, ...] = ("namespaces", "bubblewrap", "landlock")
    passed_over: list[str] = []
    best: Sandbox | None = None
    for way, own_user in itertools.product(ways, users):
        if way in without:
            continue
        tried = Sandbox(way, own_user)
        facts, reason = attempt(tried)
        if facts is None:
            passed_over.append(f"no {way}{' with own user' if own_user else ''}: {reason}")
            continue
        level = level_of(facts)
        found = Sandbox(way, own_user, level, (*words(tried, facts), *passed_over), facts)
        if best is None or (best.level != "full" and level == "full"):
            best = found
        if best.level == "full":
            return best
    return best or Sandbox("plain", False, "plain", ("limits", "supervisor", *passed_over))


def level_of(facts: dict[str, bool]) -> Level:
    """The name of what holds."""
    if all(facts[name] for name in FULL):
        return "full"
    return "partial" if facts["files_hidden"] or facts["network_blocked"] else "plain"


def words(sandbox: Sandbox, facts: dict[str, bool]) -> tuple[str, ...]:
    """What holds, in words."""
    words: list[str] = [sandbox.way]
    if sandbox.way != "plain" and sandbox.way != "landlock" and landlock_abi():
        words.append(f"landlock {landlock_abi()}")
    words += [name.replace("_", " ") for name, held in facts.items() if held]
    whole = sandbox.own_network or facts.get("calls_filtered", False)
    if sandbox.way == "landlock" and facts["network_blocked"] and not whole:  # it knows nothing of UDP
        words[words.index("network blocked")] = "tcp blocked"
    return (*words, *(["own user"] if sandbox.own_user else []), "limits")


def attempt(sandbox: Sandbox) -> tuple[dict[str, bool] | None, str]:
    """What holds inside such a sandbox; None with the reason if workers cannot even start in it."""
    if sandbox.way == "bubblewrap" and shutil.which("bwrap") is None:
        return None, "not installed"
    with (
        tempfile.TemporaryDirectory(prefix=prefix("probe")) as outside,
        tempfile.TemporaryDirectory(prefix=prefix("probe")) as scratch,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        Path(outside).chmod(0o755)
        secret = Path(outside) / "secret"
        secret.write_text("secret", encoding="utf-8")
        torch = torch_folder()
        plan = {
            "role": "probe",
            "threads": 1,
            "probe": {
                "gpu": bool(sandbox.gpu),
                "secret": str(secret),
                "needed": [str(torch / "torch/__init__.py"), str(torch / "torch/lib")] if torch else [],
                "port": listener.getsockname()[1],
                "pids": str(Path("/proc/self/ns/pid").readlink()),
            },
        }
        file_bytes = 1 << 30 if sandbox.gpu else 1 << 20
        limits = Limits(memory_bytes=0, cpu_s=20, processes=64, file_bytes=file_bytes)
        try:
            launch = sandbox.launch(host_scratch=Path(scratch), limits=limits, plan=plan)
            done = subprocess.run(
                launch.argv,
                env=launch.env,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, str(error)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return None, lines[-1][:200] if lines else f"exit code {done.returncode}"
    return json.loads(done.stdout), ""
