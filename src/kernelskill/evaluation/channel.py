"""Memory and messages between the judge and a worker. Nothing that arrives is believed before it is checked."""

from __future__ import annotations

import array
import fcntl
import json
import mmap
import os
import secrets
import select
import socket
import struct
import time
from typing import Any, Protocol

import torch

HEADER = struct.Struct("<I")
MAX_REPLY = 32 << 20
"""Largest reply taken from a worker, bytes, unless less is agreed."""
_SEAL_SIZE = 0x0002 | 0x0004  # F_SEAL_SHRINK | F_SEAL_GROW
_SEAL_FUTURE_WRITE = 0x0010


class ChannelError(Exception):
    """A reply broke the protocol: too long, not JSON, wrong form or wrong nonce."""


class ChannelClosed(Exception):
    """The worker is gone, or hung up."""


class ChannelTimeout(Exception):
    """No full reply in time."""


class Lent(Protocol):
    """Memory of the judge's, on any device, that workers are lent."""

    kind: str
    """How the worker gets at it; a key of its `slots.KINDS`."""
    nbytes: int
    reader_only: bool

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that travel beside the message."""
        ...

    @property
    def note(self) -> dict[str, Any]:
        """What the message says beside kind and size."""
        ...

    def tensor(self) -> torch.Tensor:
        """The judge's own view: uint8, `nbytes` long."""
        ...

    def seal_for_reader(self) -> None:
        """Make it unwritable for workers, where the device can."""
        ...

    def close(self) -> None:
        """Give the memory back once no view of it is left."""
        ...


class Slot:
    """A piece of host memory that the judge owns and lends to workers.

    Args:
        nbytes: size, bytes; 0 is allowed.
    """

    kind: str = "memory"

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.reader_only = False
        size = max(nbytes, mmap.PAGESIZE)
        self.fd = os.memfd_create("kernelskill-slot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            self._map = mmap.mmap(self.fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEAL_SIZE)
        except BaseException:  # whatever happened, the descriptor must not stay behind
            os.close(self.fd)
            raise

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptor that travels beside the message."""
        return (self.fd,)

    @property
    def note(self) -> dict[str, Any]:
        """Nothing beside kind and size."""
        return {}

    def tensor(self) -> torch.Tensor:
        """The judge's own writable view: uint8, `nbytes` long."""
        return torch.frombuffer(self.view(), dtype=torch.uint8)

    def view(self) -> memoryview:
        """The judge's own writable mapping, `nbytes` long."""
        return memoryview(self._map)[: self.nbytes]

    def seal_for_reader(self) -> None:
        """From now on nobody but this mapping can ever write; cannot be undone."""
        if not self.reader_only:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE)
            self.reader_only = True

    def close(self) -> None:
        """Give the memory back (once no view of it is left, if some are)."""
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        try:
            self._map.close()
        except BufferError:  # a tensor or view still points here; its end unmaps
            del self._map

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Channel:
    """The judge's end of the socket. One request, one reply, tied by a nonce.

    Args:
        end: a connected stream socket; the channel owns it from now on.
        max_reply: largest reply taken, bytes.
    """

    def __init__(self, end: socket.socket, max_reply: int = MAX_REPLY) -> None:
        self._socket = end
        self._max_reply = max_reply
        self._ended = -1
        end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._buffer = bytearray()

    def watch(self, fd: int) -> None:
        """Also wake up when this descriptor (a pidfd) becomes readable, which means that the worker ended."""
        self._poll.register(fd, select.POLLIN)
        self._ended = fd

    def ask(self, message: dict[str, Any], timeout_s: float, fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """Send a request and return its reply ({"result": ...} or {"error": ...}).

        Raises:
            ChannelError: the reply broke the protocol.
            ChannelClosed: the worker is gone.
            ChannelTimeout: no reply in time.
        """
        deadline = time.monotonic() + timeout_s
        nonce = secrets.token_hex(8)
        if self._buffer or self._pending():
            raise ChannelError("the worker spoke without being asked")
        body = json.dumps({**message, "id": nonce}, separators=(",", ":")).encode()
        self._send(HEADER.pack(len(body)) + body, fds, deadline)
        reply = self._parse(self._receive(deadline))
        if reply.pop("id", None) != nonce:
            raise ChannelError("the reply does not belong to the request")
        if set(reply) not in ({"result"}, {"error"}) or not isinstance(next(iter(reply.values())), dict):
            raise ChannelError("the reply is neither a result nor an error")
        return reply

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _pending(self) -> bool:
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        except ConnectionError:
            return False

    def _send(self, data: bytes, fds: tuple[int, ...], deadline: float) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        view = memoryview(data)
        try:
            while view:
                try:
                    sent = self._socket.sendmsg([view], ancillary)
                except BlockingIOError:
                    self._wait_to_send(deadline)
                    continue
                ancillary = []
                view = view[sent:]
        except ConnectionError as error:
            raise ChannelClosed from error

    def _wait_to_send(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([], [self._socket], [], left)[1]:
            raise ChannelTimeout

    def _receive(self, deadline: float) -> bytes:
        while True:
            if len(self._buffer) >= HEADER.size:
                size = HEADER.unpack_from(self._buffer)[0]
                if size > self._max_reply:
                    raise ChannelError(f"a reply of {size} bytes; at most {self._max_reply} are taken")
                if len(self._buffer) > HEADER.size + size:
                    raise ChannelError("the worker said more than it was asked")
                if len(self._buffer) == HEADER.size + size:
                    body = bytes(self._buffer[HEADER.size :])
                    self._buffer.clear()
                    return body
            self._read_more(deadline)

    def _read_more(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        ready = dict(self._poll.poll(max(0.0, left) * 1000)) if left > 0 else {}
        if self._socket.fileno() in ready:
            try:
                data = self._socket.recv(1 << 18)
            except ConnectionError as error:
                raise ChannelClosed from error
            if not data:
                raise ChannelClosed
            self._buffer += data
        elif self._ended in ready:
            raise ChannelClosed
        elif not ready:
            raise ChannelTimeout

    @staticmethod
    def _parse(body: bytes) -> dict[str, Any]:
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ChannelError("the reply is not JSON") from error
        if not isinstance(reply, dict):
            raise ChannelError("the reply is not an object")
        return reply
