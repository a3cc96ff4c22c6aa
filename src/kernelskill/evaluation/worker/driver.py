"""Device memory that two processes share, through the CUDA driver itself.

torch's caching allocator puts many tensors into one allocation, and a handle exposes the whole of it. Here every piece
is an allocation of its own, a multiple of the driver's granularity long, so that a handle shows nothing else.
Used by the judge and by workers alike; standard library and torch only.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any

import torch

GRANULE = 2 << 20
"""Allocations are multiples of this; smaller ones would share a page with others of the process."""
DEVICE_LOCATION, PINNED, POSIX_FD, READ_WRITE = 1, 1, 1, 3
OPEN_LAZY_PEER = 1
Address = ctypes.c_uint64
Handle = ctypes.c_uint64


class DriverError(RuntimeError):
    """A call of the CUDA driver was refused; the text names the call and the driver's own word."""


class IpcHandle(ctypes.Structure):
    """What `cuIpcGetMemHandle` fills."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Flags(ctypes.Structure):
    _fields_ = [
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", _Flags),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


@functools.cache
def library() -> ctypes.CDLL:
    """The driver.

    Raises:
        DriverError: there is none.
    """
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"no CUDA driver: {error}") from error


def call(name: str, *arguments: Any) -> None:
    """One call of the driver.

    Raises:
        DriverError: its answer is not CUDA_SUCCESS.
    """
    code = getattr(library(), name)(*arguments)
    if code:
        word = ctypes.c_char_p()
        library().cuGetErrorName(code, ctypes.byref(word))
        raise DriverError(f"{name}: {(word.value or b'?').decode()} ({code})")


def enter() -> None:
    """Make torch's context the current one of this thread."""
    torch.cuda.set_device(torch.cuda.current_device())
    torch.empty(1, device="cuda")


def rounded(nbytes: int) -> int:
    """The length of an allocation that holds `nbytes`."""
    return -(-max(nbytes, 1) // GRANULE) * GRANULE


class Physical:
    """Memory whose handle travels as a file descriptor.

    Args:
        nbytes: how much is needed; the allocation is `rounded(nbytes)` long.
        fd: of another process's allocation (it stays the caller's); None makes a new one.

    Raises:
        DriverError: the driver refuses (no memory, or no such handles here).
    """

    def __init__(self, nbytes: int, fd: int | None = None) -> None:
        enter()
        self.length = rounded(nbytes)
        self._handle, self._address = Handle(), Address()
        self._mapped = False
        device = torch.cuda.current_device()
        if fd is None:
            wanted = _Properties(PINNED, POSIX_FD, _Location(DEVICE_LOCATION, device))
            call(
                "cuMemCreate",
                ctypes.byref(self._handle),
                ctypes.c_size_t(self.length),
                ctypes.byref(wanted),
                Handle(0),
            )
        else:
            call("cuMemImportFromShareableHandle", ctypes.byref(self._handle), ctypes.c_void_p(fd), POSIX_FD)
        try:
            size = ctypes.c_size_t(self.length)
            call(
                "cuMemAddressReserve",
                ctypes.byref(self._address),
                size,
                ctypes.c_size_t(0),
                Address(0),
                Handle(0),
            )
            call("cuMemMap", self._address, size, ctypes.c_size_t(0), self._handle, Handle(0))
            self._mapped = True
            access = _Access(_Location(DEVICE_LOCATION, device), READ_WRITE)
            call("cuMemSetAccess", self._address, size, ctypes.byref(access), ctypes.c_size_t(1))
        except DriverError:
            self.close()
            raise

    @property
    def address(self) -> int:
        """Where it lies in this process's device address space."""
        return int(self._address.value)

    def export(self) -> int:
        """A new descriptor by which another process can map it; the caller closes it.

        Raises:
            DriverError: handles cannot leave the process here.
        """
        fd = ctypes.c_int(-1)
        call("cuMemExportToShareableHandle", ctypes.byref(fd), self._handle, POSIX_FD, Handle(0))
        return fd.value

    def close(self) -> None:
        """Unmap it; the memory goes when no process holds it any more. May be called again."""
        size = ctypes.c_size_t(self.length)
        if self._mapped:
            self._mapped = False
            torch.cuda.synchronize()
            call("cuMemUnmap", self._address, size)
        if self._address.value:
            call("cuMemAddressFree", self._address, size)
            self._address = Address()
        if self._handle.value:
            call("cuMemRelease", self._handle)
            self._handle = Handle()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the context may be lost, or the process about to end
            self.close()


class Allocated:
    """Memory whose handle travels as 64 bytes (CUDA IPC).

    Args:
        nbytes: how much is needed.
        handle: of another process's allocation; None makes a new one.

    Raises:
        DriverError: the driver refuses.
    """

    def __init__(self, nbytes: int, handle: bytes | None = None) -> None:
        enter()
        self.length = rounded(nbytes)
        self._address = Address()
        self._opened = handle is not None
        if handle is None:
            call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(self.length))
        else:
            known = IpcHandle.from_buffer_copy(handle)
            call("cuIpcOpenMemHandle_v2", ctypes.byref(self._address), known, ctypes.c_uint(OPEN_LAZY_PEER))

    @property
    def address(self) -> int:
        """Where it lies in this process's device address space."""
        return int(self._address.value)

    def export(self) -> bytes:
        """The handle.

        Raises:
            DriverError: this memory has none.
        """
        handle = IpcHandle()
        call("cuIpcGetMemHandle", ctypes.byref(handle), self._address)
        return bytes(handle)

    def close(self) -> None:
        """Give it back. May be called again."""
        if self._address.value:
            torch.cuda.synchronize()
            call("cuIpcCloseMemHandle" if self._opened else "cuMemFree_v2", self._address)
            self._address = Address()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the context may be lost, or the process about to end
            self.close()


class _Window:
    """What torch asks of memory that is not its own."""

    def __init__(self, memory: Physical | Allocated, nbytes: int) -> None:
        self._memory = memory  # torch keeps this object, and with it the mapping, as long as a view lives
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (memory.address, False),
            "version": 3,
            "strides": None,
        }


def bytes_of(memory: Physical | Allocated, nbytes: int) -> torch.Tensor:
    """The memory as a uint8 tensor of `nbytes` elements."""
    return torch.as_tensor(_Window(memory, max(nbytes, 1)), device="cuda")[:nbytes]
