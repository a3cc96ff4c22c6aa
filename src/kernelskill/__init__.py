"""Faster PyTorch code, proven to compute the same.

    >>> import kernelskill
    >>> result = kernelskill.optimize("model.py")            # or a module, with inputs=[...]
    >>> result.speedup, result.report, result.module

Importing this package loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelskill.api import Result, evaluate, optimize

__all__ = ["Result", "evaluate", "optimize"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the public names when they are first used, so that importing stays instant."""
    if name in __all__:
        return getattr(import_module("kernelskill.api"), name)
    raise AttributeError(
        f"module 'kernelskill' has no attribute {name!r}; public names: {', '.join(__all__)}"
    )
