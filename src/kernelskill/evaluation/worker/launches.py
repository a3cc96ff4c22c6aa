"""Launches of kernels that a candidate has built from text of its own, and how to make them do nothing.

Such kernels lie in the device's memory alone. They are launched by Triton, by the classes with which PyTorch launches
what it has built from given text, and by the driver's own functions, called through ctypes. What PyTorch's compilers
make (torch.compile's, TorchScript's) goes by other ways and runs on.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable, Iterable
from typing import Any

DRIVER = "libcuda.so.1"
FUNCTIONS = (
    "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz",
    "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz", "cuGraphLaunch", "cuGraphLaunch_ptsz",
)  # fmt: skip
_FOREIGN = type(ctypes.CDLL(None).getpid).__mro__[1]
"""What every function that ctypes calls is an instance of."""
_KEPT: list[Any] = []
"""Functions that others point at by address: they must not be freed."""


def silence() -> list[int]:
    """Make these launches, and replays of graphs, do nothing; each grows the list. There is no way back."""
    launches: list[int] = []

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        launches.append(1)

    for module, kind, method, put in (
        ("torch._C", "_CUDAGraph", "replay", nothing),  # below any method that was kept beforehand
        ("torch.cuda.graphs", "CUDAGraph", "replay", nothing),
        ("triton.runtime.jit", "JITFunction", "run", nothing),
        ("triton.compiler.compiler", "CompiledKernel", "__getitem__", lambda *_: nothing),
        ("torch.cuda._utils", "_CudaKernel", "__call__", nothing),
        ("torch.cuda.jiterator", "_JittedFunction", "__call__", nothing),
    ):
        owner = getattr(sys.modules.get(module), kind, None)
        if owner is not None:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(owner, method, put)
    with contextlib.suppress(OSError):
        silence_foreign(ctypes.CDLL(DRIVER), FUNCTIONS, nothing)
    return launches


def silence_foreign(library: ctypes.CDLL, names: Iterable[str], called: Callable[[], None]) -> None:
    """Make functions of a library return 0 at once wherever ctypes calls them: known already, or looked up later.

    Args:
        library: whose functions.
        names: which; those that it lacks are left out.
        called: is told of every call.
    """
    found = (getattr(library, name, None) for name in names)
    silenced = {_address(item).value for item in found if item is not None}

    def returns_zero() -> int:
        called()
        return 0

    zero = ctypes.CFUNCTYPE(ctypes.c_int)(returns_zero)
    _KEPT.append(zero)
    instead = _address(zero).value

    def redirect(function: Any) -> Any:
        if issubclass(type(function), _FOREIGN) and _address(function).value in silenced:
            _address(function).value = instead
        return function

    for item in [item for item in gc.get_objects() if issubclass(type(item), _FOREIGN)]:
        redirect(item)
    looked_up = ctypes.CDLL.__getitem__
    ctypes.CDLL.__getitem__ = lambda of, name: redirect(looked_up(of, name))  # type: ignore[method-assign]


def _address(function: Any) -> ctypes.c_void_p:
    """Where a function object holds the address that it calls."""
    return ctypes.c_void_p.from_address(ctypes.addressof(function))
