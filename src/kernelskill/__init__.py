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
    from kernelskill.config import Config, load_config
    from kernelskill.records import Budget

__all__ = ["Budget", "Config", "Result", "evaluate", "load_config", "optimize"]
_ROOMS = {"Budget": "records", "Config": "config", "load_config": "config"}
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the public names when they are first used, so that importing stays instant."""
    if name in __all__:
        return getattr(import_module(f"kernelskill.{_ROOMS.get(name, 'api')}"), name)
    raise AttributeError(
        f"module 'kernelskill' has no attribute {name!r}; public names: {', '.join(__all__)}"
    )
