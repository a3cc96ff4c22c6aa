"""The law of an example: what fresh inputs of the same kind look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelskill.records import InputLaw, Json, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor


def fitted(arguments: Json) -> tuple[tuple[InputLaw, ...], Json]:
    """A law per tensor, and the tree of the arguments.

    Args:
        arguments: list of positional or dict of keyword arguments, nested as forward takes them.
    """
    laws: list[InputLaw] = []

    def walk(value: Json) -> Json:
        from torch import Tensor

        if isinstance(value, Tensor):
            laws.append(law_of(value))
            return {"tensor": len(laws) - 1}
        if isinstance(value, dict):
            return {"dict": {key: walk(item) for key, item in value.items()}}
        if isinstance(value, list | tuple):
            return {"tuple" if isinstance(value, tuple) else "list": [walk(item) for item in value]}
        return {"value": value}

    tree = walk(arguments)
    return tuple(laws), tree


def law_of(tensor: Tensor) -> InputLaw:
    """The law of one tensor: integers are drawn from the observed range, floats by spread.

    A float tensor whose values all lie in [0, 1] is taken as uniform over its range; others as normal with the
    observed mean and standard deviation. A tensor of one value stays that value.
    """
    import torch

    spec = TensorSpec(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        stride=tuple(tensor.stride()),
    )
    if tensor.numel() == 0:
        return InputLaw(kind="constant", spec=spec, low=0.0)
    if tensor.dtype is torch.bool:
        return InputLaw(kind="boolean", spec=spec, rate=float(tensor.float().mean()))
    if not tensor.is_floating_point():
        return InputLaw(kind="integer", spec=spec, low=float(tensor.min()), high=float(tensor.max()) + 1)
    values = tensor.detach().double()
    low, high = float(values.min()), float(values.max())
    if low == high and tensor.numel() > 1:
        return InputLaw(kind="constant", spec=spec, low=low)
    if low >= 0 and high <= 1:
        return InputLaw(kind="uniform", spec=spec, low=low, high=high)
    std = float(values.std()) if tensor.numel() > 1 else 1.0
    return InputLaw(kind="normal", spec=spec, mean=float(values.mean()), std=std or 1.0)
