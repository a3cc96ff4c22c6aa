"""How judge and worker speak: one JSON object after a length, file descriptors beside it.

Request: `{"id": nonce, "command": name, ...}`; reply: `{"id": nonce, "result": {...}}` or
`{"id": nonce, "error": {"status": "...", "detail": "...", "hint": "..."}}`.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from typing import Any

HEADER = struct.Struct("<I")
MAX_REQUEST = 64 << 20
"""Largest request, bytes (a candidate's source, an initial tree)."""
FD_BYTES = array.array("i").itemsize
MOST_FDS = 4
"""Descriptors that come with one request."""


class Failure(Exception):
    """A command could not be done, and it is not the judge's fault.

    Args:
        status: value of `kernelskill.records.Status`, e.g. "runtime-error".
        detail: what happened.
        hint: what usually causes this.
    """

    def __init__(self, status: str, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint


class Closed(Exception):
    """The judge hung up."""


class Connection:
    """The worker's end of the socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._fds: list[int] = []

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Next request, with the file descriptors that came along.

        Raises:
            Closed: the judge hung up.
        """
        size = HEADER.unpack(self._exactly(HEADER.size))[0]
        if size > MAX_REQUEST:
            raise Closed(f"a request of {size} bytes")
        message = json.loads(self._exactly(size))
        fds, self._fds = self._fds, []
        return message, fds

    def send(self, message: dict[str, Any]) -> None:
        """Send one reply."""
        body = json.dumps(message, separators=(",", ":")).encode()
        self._socket.sendall(HEADER.pack(len(body)) + body)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            data, ancillary, _flags, _address = self._socket.recvmsg(
                min(size - len(parts), 1 << 20), socket.CMSG_SPACE(MOST_FDS * FD_BYTES)
            )
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds = array.array("i")
                    fds.frombytes(content[: len(content) - len(content) % FD_BYTES])
                    self._fds.extend(fds)
            if not data:
                raise Closed
            parts += data
        return bytes(parts)
