"""What is recorded of one kernel: how it is called, and the work that its mathematics needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """One kernel at one size, and the work that its mathematics needs."""

    name: str
    call: Callable[[], Any]
    read_bytes: int
    written_bytes: int
    flops: float = 0.0
    transcendentals: float = 0.0
    is_map: bool = False
    """Whether elements are independent of each other."""
    kernel: Any = None
    """The Triton function, where it is one."""
    function: Any = None
    """The compiled CUDA function with its attributes, where it is one."""
