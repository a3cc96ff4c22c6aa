"""A worker as the judge holds it: start, ask, freeze, count, kill."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelskill.errors import WorkerError
from kernelskill.evaluation import nursery, processes
from kernelskill.evaluation.cgroup import Group
from kernelskill.evaluation.channel import (
    MAX_REPLY,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
    Lent,
)
from kernelskill.evaluation.sandbox import Limits, Sandbox
from kernelskill.evaluation.verdict import WorkerFailure, death, refusal
from kernelskill.records import Status
from kernelskill.scratch import prefix

__all__ = ["Limits", "Worker", "WorkerFailure"]

TAIL_BYTES = 16 << 10
CANDIDATE_REPLY = 4 << 20
"""Largest reply taken from a candidate's worker, bytes."""
KILL_S = 10.0
_numbers = itertools.count()


class Worker:
    """One confined process (with whatever it starts). Not for use from several threads at once.

    The process starts in the background; the first call waits for it, up to `limits.start_s`.

    Args:
        role: "candidate", "reference" or "stock"; for messages.
        sandbox: how to confine it.
        limits: what it may use.
        threads: OpenMP and torch threads.
        trusted_cache: folder for compiled artefacts that outlives the worker (stock arms only, never candidates).
        readable: further folders or files it may read (what a reference imports).
        device: "cpu" or "cuda": where it computes.

    Raises:
        WorkerError: the process could not be started.
    """

    def __init__(
        self,
        role: str,
        *,
        sandbox: Sandbox,
        limits: Limits,
        threads: int,
        trusted_cache: Path | None = None,
        readable: Sequence[Path] = (),
        device: str = "cpu",
    ) -> None:
        self.role = role
        self._limits = limits
        self._slot_numbers = itertools.count()
        self._greeted = False
        self._group = Group((), memory_bytes=0, processes=0)
        self._closed = False
        self._stopped: list[int] = []
        self.frozen = False
        """Whether its processes are stopped."""
        self._scratch = Path(tempfile.mkdtemp(prefix=prefix("worker"))) if sandbox.needs_folder else None
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, CANDIDATE_REPLY if role == "candidate" else MAX_REPLY)
        try:
            if trusted_cache is not None:
                trusted_cache.mkdir(parents=True, exist_ok=True)
            launch = sandbox.launch(
                host_scratch=self._scratch,
                limits=limits,
                plan={"role": role, "fd": theirs.fileno(), "threads": threads, "device": device},
                readable=readable,
                cache_folder=trusted_cache,
                number=next(_numbers),
            )
            self._process = nursery.start(launch, theirs.fileno())
        except (OSError, WorkerError) as error:
            self._channel.close()
            _remove(self._scratch)
            raise WorkerError(
                f"the {role} worker could not be started: {error}; see: kernelskill doctor"
            ) from error
        finally:
            theirs.close()
        self._pidfd = os.pidfd_open(self._process.pid)
        self._channel.watch(self._pidfd)
        assert self._process.stdout is not None
        self._output = _Tail(self._process.stdout.fileno())
        self._finalizer = weakref.finalize(self, _leave_nothing, self._process, self._scratch)

    @property
    def pid(self) -> int:
        """Process id of the outermost process of the tree."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked something."""
        return not self._closed and self._process.poll() is None

    @property
    def output(self) -> str:
        """The last 16 KB of what the worker printed."""
        return self._output.text()

    def call(self, command: str, *, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer.

        Raises:
            WorkerFailure: an error reply (the worker lives on), or death, timeout, a broken protocol (it is closed).
            WorkerError: the worker never came up, or was closed before.
        """
        return self._ask({**arguments, "command": command}, timeout_s)

    def give(self, slot: Lent, *, writable: bool) -> int:
        """Lend a slot; the worker can only ever read it unless `writable`.

        Returns:
            The number by which commands name the slot.

        Raises:
            ValueError: a slot that was lent read-only cannot be lent writable any more.
        """
        if writable and slot.reader_only:
            raise ValueError("the slot is sealed for readers")
        if not writable:
            slot.seal_for_reader()
        number = next(self._slot_numbers)
        message = {
            "command": "slot",
            "slot": number,
            "kind": slot.kind,
            "nbytes": slot.nbytes,
            "writable": writable,
            **slot.note,
        }
        self._ask(message, self._limits.start_s, slot.fds)
        return number

    def take_back(self, number: int) -> None:
        """Have the worker forget a slot; calls bound to it keep it mapped until they are bound anew."""
        self.call("drop", timeout_s=self._limits.start_s, slot=number)

    def ready(self) -> None:
        """Wait until the worker is up.

        Raises:
            WorkerError: it did not come up.
        """
        if self._closed:
            raise WorkerError(f"the {self.role} worker is closed")
        if self._greeted:
            return
        self._greeted = True
        try:
            self._ask({"command": "ping"}, self._limits.start_s)
        except WorkerFailure as failure:
            raise WorkerError(f"the {self.role} worker did not start: {failure.detail}") from failure
        tree, limits = processes.living(self.pid), self._limits  # before it has run anybody's code
        whole = limits.tree_bytes or limits.memory_bytes
        self._group = Group(tree, memory_bytes=whole, processes=limits.processes)

    def freeze(self) -> None:
        """Stop every process of the tree; returns when none runs any more.

        Raises:
            WorkerFailure: they would not stop.
        """
        stopped = processes.stop(self.pid)
        if stopped is None:
            self.close()
            raise WorkerFailure(Status.INTEGRITY, "processes of the worker could not be stopped", "")
        self._stopped = stopped
        self.frozen = True

    def thaw(self) -> None:
        """Let a frozen tree go on: those that were stopped, which cannot have started others."""
        self.frozen = False
        if not self._closed:  # their ids may be others' by now
            for pid in self._stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Processor seconds used so far by the whole tree, ended children included, as the kernel counts them."""
        return processes.cpu_seconds(self.pid)

    def close(self) -> None:
        """Kill the whole tree and remove everything of it. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._channel.close()
        self._finalizer()
        self._group.close()
        self._output.finish()
        if self._process.stdout is not None:
            self._process.stdout.close()
        os.close(self._pidfd)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, message: dict[str, Any], timeout_s: float, fds: tuple[int, ...] = ()) -> dict[str, Any]:
        self.ready()
        try:
            reply = self._channel.ask(message, timeout_s, fds)
        except ChannelTimeout as error:
            self.close()
            raise WorkerFailure(
                Status.TIMEOUT,
                f"no answer to {message['command']} within {timeout_s:g} s{self._said()}",
                "an endless loop, a deadlock, or far too slow",
            ) from error
        except ChannelError as error:
            self.close()
            raise WorkerFailure(
                Status.INTEGRITY, f"{error}{self._said()}", "only the runner may answer"
            ) from error
        except ChannelClosed as error:
            raise self._post_mortem() from error
        if "error" in reply:
            if reply["error"].get("broken") is True:  # it can compute nothing any more
                self.close()
            raise refusal(reply["error"])
        result: dict[str, Any] = reply["result"]
        return result

    def _post_mortem(self) -> WorkerFailure:
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        return death(code, self._output.text())

    def _said(self) -> str:
        text = self._output.text().strip()
        return f"; it printed last:\n{text[-1000:]}" if text else ""


class _Tail:
    """Keeps the end of a stream; reads on for ever, so that the writer never blocks."""

    def __init__(self, fd: int) -> None:
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, args=(fd,), daemon=True, name="kernelskill-output")
        self._thread.start()

    def text(self) -> str:
        """What was read last."""
        with self._lock:
            return self._kept.decode(errors="replace")

    def finish(self) -> None:
        """Wait for the end of the stream, which comes when all its writers are dead."""
        self._thread.join(KILL_S)

    def _read(self, fd: int) -> None:
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self._kept += data
                del self._kept[:-TAIL_BYTES]


def _remove(scratch: Path | None) -> None:
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def _leave_nothing(process: nursery.Started, scratch: Path | None) -> None:
    try:
        if process.poll() is None:  # otherwise its id may be another's by now
            _kill(process.pid)
            with suppress(subprocess.TimeoutExpired):
                process.wait(KILL_S)
    finally:
        _remove(scratch)


def _kill(pid: int) -> None:
    """Kill everything under a process, then the process; a supervisor lives to the end so that no orphan escapes."""
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        below = processes.living(pid)[1:]
        if not below:
            break
        for child in below:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
