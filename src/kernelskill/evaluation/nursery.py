"""Workers from a process that has imported torch already: milliseconds instead of seconds for each.

The server is ours alone: it never runs code of a task or a candidate, and each worker is confined after the fork just
as one that was started afresh.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, Protocol

from kernelskill.errors import WorkerError
from kernelskill.evaluation.channel import Channel, ChannelClosed, ChannelError, ChannelTimeout
from kernelskill.evaluation.filesystem import WORKER, torch_folder
from kernelskill.evaluation.sandbox import Launch

LIGHT = ("torch",)
HEAVY = (*LIGHT, "torch._dynamo", "torch._inductor.compile_fx")
"""What capturing a graph and compiling it would spend seconds on."""
COMPILING = frozenset({"reference", "stock"})
"""Roles that need the heavy imports."""
AT_LOAD = (
    "PATH", "LANG", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "TORCHINDUCTOR_COMPILE_THREADS",
    "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING", "CUDA_HOME", "LD_LIBRARY_PATH",
)  # fmt: skip
"""Variables that libraries read when they are loaded; workers that differ in one need another server."""
START_S = 120.0
ASK_S = 20.0
LOST = -int(signal.SIGKILL)
"""Exit code of a worker whose server is gone: it was killed with it."""
_starter = ThreadPoolExecutor(1, thread_name_prefix="kernelskill-starter")
"""A server dies with the thread that started it, so that thread must live as long as this process."""
Key = tuple[tuple[str, str], ...]
_servers: dict[tuple[Key, tuple[str, ...]], Nursery] = {}
_lock = threading.Lock()


class Started(Protocol):
    """A process as its owner sees it; what `subprocess.Popen` offers."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Exit code; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Exit code, once it has one.

        Raises:
            subprocess.TimeoutExpired: it has none yet.
        """
        ...


def start(launch: Launch, channel: int) -> Started:
    """Start a worker the quickest way.

    Args:
        launch: what to start.
        channel: descriptor of the worker's end of its socket.

    Raises:
        OSError: the process could not be started.
        WorkerError: the server could not.
    """
    if launch.order is None:  # bubblewrap starts programs only
        return _starter.submit(_spawn, launch.argv, launch.env, (channel,)).result()
    key = tuple((name, launch.env[name]) for name in AT_LOAD if name in launch.env)
    with _lock:
        heavy = launch.plan["role"] in COMPILING or (key, HEAVY) in _servers
        return _server(key, HEAVY if heavy else LIGHT).start(launch, channel)


def _server(key: Key, imports: tuple[str, ...]) -> Nursery:
    """A server that lives, with all of these imports that do not wake the CUDA driver."""
    known = _servers.get((key, imports))
    if known is not None and known.alive:
        return known
    if known is not None:
        known.close()
    server = Nursery(dict(key), imports)
    if server.spoilt:
        server.close()
        server = Nursery(dict(key), LIGHT)
    _servers[key, imports] = server
    return server


class Nursery:
    """The judge's side of `worker/nursery.py`.

    Args:
        env: environment that libraries are loaded under.
        imports: modules to import.

    Raises:
        WorkerError: it does not come up.
    """

    def __init__(self, env: Mapping[str, str], imports: Sequence[str] = HEAVY) -> None:
        ours, theirs = socket.socketpair()
        folder = torch_folder()
        plan = {"fd": theirs.fileno(), "path": [str(folder)] if folder else [], "imports": list(imports)}
        argv = [sys.executable, "-I", str(WORKER / "nursery.py"), json.dumps(plan)]
        with theirs:
            self._process = _starter.submit(_spawn, argv, dict(env), (theirs.fileno(),)).result()
        self._channel = Channel(ours)
        self._lock = threading.Lock()
        try:
            self.spoilt = bool(self._ask(START_S, command="ping")["spoilt"])
            """Whether its children could not use a GPU."""
        except WorkerError as error:
            self._channel.close()
            self._process.kill()
            said = self._process.communicate()[0].decode(errors="replace")[-1500:]
            raise WorkerError(f"{error}; it printed last:\n{said}") from error

    @property
    def alive(self) -> bool:
        """Whether it can start something."""
        return self._process.poll() is None

    def start(self, launch: Launch, channel: int) -> Forked:
        """Fork a worker.

        Raises:
            WorkerError: the server is gone.
        """
        reader, writer = os.pipe()
        try:
            request = {"command": "start", "order": launch.order, "plan": launch.plan, "env": launch.env}
            pid = self._ask(ASK_S, (channel, writer), **request)["pid"]
        except BaseException:  # whatever it was, the pipe must not stay behind
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return Forked(pid, os.fdopen(reader, "rb", buffering=0), self)

    def close(self) -> None:
        """End it, and with it every worker that it forked."""
        self._channel.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def reap(self, pid: int) -> int:
        """Exit code of a worker that has ended."""
        try:
            return int(self._ask(ASK_S, command="reap", pid=pid)["code"])
        except WorkerError:
            return LOST

    def _ask(self, timeout_s: float, fds: tuple[int, ...] = (), **request: Any) -> dict[str, Any]:
        try:
            with self._lock:
                reply: dict[str, Any] = self._channel.ask(request, timeout_s, fds)["result"]
        except (
            ChannelClosed,
            ChannelError,
            ChannelTimeout,
            OSError,
        ) as error:  # OSError: closed by us, at the end
            raise WorkerError(
                f"the process that starts workers is lost ({type(error).__name__}); see: kernelskill doctor"
            ) from error
        return reply


class Forked:
    """A worker that the server forked; its id stays its own until it is reaped."""

    def __init__(self, pid: int, stdout: IO[bytes], server: Nursery) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self._server = server
        self._ended = os.pidfd_open(pid)
        self._code: int | None = None
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        """Exit code; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """As `subprocess.Popen.wait`."""
        with self._reaping:
            if self._code is None:
                waiting = select.poll()
                waiting.register(self._ended, select.POLLIN)
                if not waiting.poll(None if timeout is None else 1000 * timeout):
                    raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
                self._code = self._server.reap(self.pid)
                os.close(self._ended)
            return self._code


@atexit.register
def _close_all() -> None:
    for server in _servers.values():
        server.close()


def _spawn(argv: list[str], env: dict[str, str], fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=fds,
        start_new_session=True,
    )
