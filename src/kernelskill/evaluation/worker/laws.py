"""Values by the law that was fitted to an example."""

from __future__ import annotations

from typing import Any

import torch

from .slots import storage_elements


def from_law(law: dict[str, Any]) -> torch.Tensor:
    """Fresh values of one tensor, in the layout of the example.

    Args:
        law: JSON of `records.InputLaw`.
    """
    spec = law["spec"]
    dtype = getattr(torch, spec["dtype"])
    values = _values(law, storage_elements(spec["shape"], spec["stride"]), dtype)
    if not values.numel():
        return torch.empty_strided(spec["shape"], spec["stride"], dtype=dtype)
    return values.to(dtype).as_strided(spec["shape"], spec["stride"])


def _values(law: dict[str, Any], count: int, dtype: torch.dtype) -> torch.Tensor:
    kind, low, high = str(law["kind"]), float(law["low"]), float(law["high"])
    mean, std = float(law["mean"]), float(law["std"])
    if dtype.is_complex:
        return torch.complex(*(torch.randn(count) * std + mean for _ in "ri"))
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    if kind == "boolean":
        true = torch.rand(count) < float(law["rate"])
        if dtype is torch.bool:
            return true
        return torch.where(true, torch.tensor(high, dtype=wide), torch.tensor(low, dtype=wide))
    if kind == "integer":
        return torch.randint(int(low), max(int(high), int(low) + 1), (count,))
    if kind == "constant":
        return torch.full((count,), low, dtype=wide)
    if kind == "uniform":
        return torch.rand(count, dtype=wide) * (high - low) + low
    return torch.randn(count, dtype=wide) * std + mean
