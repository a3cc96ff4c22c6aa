"""Arguments of a graph's nodes as torch takes them."""

from __future__ import annotations

from typing import Any

import torch

from kernelskill.records import NonFinite, Ref


def argument(arg: Any, values: dict[str, list[torch.Tensor]]) -> Any:
    """One argument, with the values of other nodes in place of references."""
    if isinstance(arg, Ref):
        return values[arg.node][arg.output]
    if isinstance(arg, NonFinite):
        return float(arg.number)
    if isinstance(arg, tuple):
        return [argument(item, values) for item in arg]
    named = getattr(torch, arg, None) if isinstance(arg, str) else None
    return named if isinstance(named, (torch.dtype, torch.layout, torch.memory_format)) else arg
