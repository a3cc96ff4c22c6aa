"""The law of an example: what fresh inputs of the same kind look like."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelskill.errors import TaskError
from kernelskill.records import DTYPE_BYTES, InputLaw, Json, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor

FLAT_KURTOSIS = 2.2
"""Below it (uniform: 1.8, normal: 3), values that take both signs are taken as uniform over their range."""
TELLING = 32
"""Elements from which on a shape of the distribution is believed."""
STRUCTURED = 4
"""Length from which on an ordered tensor of integers is taken as structure (positions, offsets), not as values."""


def fitted(arguments: Json) -> tuple[tuple[InputLaw, ...], Json, dict[int, Tensor]]:
    """A law per tensor, the tree of the arguments, and the examples that are kept as they are.

    Args:
        arguments: list of positional or dict of keyword arguments, nested as forward takes them.

    Raises:
        TaskError: an argument is of a kind that no worker can be given.
    """
    laws: list[InputLaw] = []
    fixed: dict[int, Tensor] = {}

    def walk(value: Any) -> Json:
        from torch import Tensor, dtype

        if isinstance(value, Tensor):
            law = law_of(value, len(laws))
            if law.kind == "fixed":
                fixed[len(laws)] = value.detach().clone()
            laws.append(law)
            return {"tensor": len(laws) - 1}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: walk(item) for key, item in value.items()}}
        if isinstance(value, list | tuple):
            return {"tuple" if isinstance(value, tuple) else "list": [walk(item) for item in value]}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, float) and not math.isfinite(value):
            raise TaskError(f"inputs= holds the number {value}; give it as a tensor")
        if value is None or isinstance(value, bool | int | float | str):
            return {"value": value}
        raise TaskError(
            f"inputs= holds a {type(value).__name__}; tensors, numbers, strings and containers are supported"
        )

    tree = walk(arguments)
    return tuple(laws), tree, fixed


def law_of(tensor: Tensor, place: int = 0) -> InputLaw:
    """The law of one tensor.

    Booleans keep their rate; integers are drawn from the observed range, unless they are in order or a permutation,
    which is structure and stays; floats of two values keep their rate, of one sign or flat are uniform over their
    range, others normal with the observed mean and spread. What holds NaN or infinity (a mask) stays.

    Args:
        tensor: the example.
        place: its number among the inputs, for messages.

    Raises:
        TaskError: it is not a plain dense tensor.
    """
    import torch

    word = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is not torch.strided or word not in DTYPE_BYTES:
        raise TaskError(
            f"input {place} is {word} in layout {tensor.layout}; only plain dense tensors are supported"
        )
    if tensor.device.type == "meta":
        raise TaskError(f"input {place} is a meta tensor, which has no values to learn a law from")
    spec = TensorSpec(shape=tuple(tensor.shape), dtype=word, stride=tuple(tensor.stride()))
    values = tensor.detach().cpu()
    if tensor.numel() == 0:
        return InputLaw(kind="constant", spec=spec)
    if tensor.dtype is torch.bool:
        return InputLaw(kind="boolean", spec=spec, rate=float(values.double().mean()))
    if tensor.is_complex():
        parts = torch.view_as_real(values.resolve_conj()).double()
        return InputLaw(kind="normal", spec=spec, mean=float(parts.mean()), std=_spread(parts))
    if not tensor.is_floating_point():
        if _is_structure(values):
            return InputLaw(kind="fixed", spec=spec, low=float(values.min()), high=float(values.max()) + 1)
        return InputLaw(kind="integer", spec=spec, low=float(values.min()), high=float(values.max()) + 1)
    if not bool(torch.isfinite(values).all()):
        return InputLaw(kind="fixed", spec=spec)
    return _floating(values.double().flatten(), spec)


def _floating(values: Tensor, spec: TensorSpec) -> InputLaw:
    low, high = float(values.min()), float(values.max())
    mean, std = float(values.mean()), _spread(values)
    if values.numel() == 1:
        # One number (a scale, a temperature): same sign, same size, and a probability stays one.
        ends = sorted((0.5 * low, min(1.5 * low, 1.0) if 0 <= low <= 1 else 1.5 * low))
        return InputLaw(
            kind="uniform" if low else "constant", spec=spec, low=ends[0], high=ends[1], mean=mean
        )
    if low == high:
        return InputLaw(kind="constant", spec=spec, low=low, high=high)
    if values.numel() >= TELLING and bool(((values == low) | (values == high)).all()):
        rate = float((values == high).double().mean())
        return InputLaw(kind="boolean", spec=spec, low=low, high=high, rate=rate)
    one_sign = low >= 0 or high <= 0
    flat = values.numel() >= TELLING and float((((values - mean) / std) ** 4).mean()) < FLAT_KURTOSIS
    return InputLaw(
        kind="uniform" if one_sign or flat else "normal", spec=spec, low=low, high=high, mean=mean, std=std
    )


def _spread(values: Tensor) -> float:
    return float(values.std()) or 1.0 if values.numel() > 1 else 1.0


def _is_structure(values: Tensor) -> bool:
    """Whether integers are in order along the last axis, or a permutation of a range."""
    if values.dim() == 0 or values.shape[-1] < STRUCTURED:
        return False
    steps = values.long().diff(dim=-1)
    if bool((steps == 0).all()):
        return False
    if bool((steps >= 0).all()) or bool((steps <= 0).all()):
        return True
    flat = values.flatten().long().sort().values
    return bool((flat.diff() == 1).all())
