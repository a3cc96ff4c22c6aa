"""Parameters and buffers: written from the judge's bytes, or read out into them, by name."""

from __future__ import annotations

from typing import Any

import torch

from .protocol import Failure
from .session import Session


def handle_state(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Copy state between slots and the model.

    Message: `names` and, per name, `slot_ids`, `specs` (TensorSpec JSON: how the bytes lie in the slot) and optionally
    `offsets` (bytes, default 0); `write` true to change the model, false to read it out; `by_shape` true to let a name
    that the model lacks be matched to the only free tensor of its shape and dtype; `arm` where several are here.

    Reply: `missing` (asked for, not in the model), `extra` (in the model, not asked for), `matched` (name -> other name
    used by shape). Writing goes through copy_ under no_grad, so version counters move.

    Raises:
        Failure: wrong-shape or wrong-dtype of a tensor under that name.
    """
    session.turn_to(message.get("arm", ""))
    tensors = state_of(session.model)
    names: list[str] = message["names"]
    matched = _by_shape(names, message["specs"], tensors) if message.get("by_shape") else {}
    offsets = message.get("offsets") or [0] * len(names)
    missing = []
    if message["write"]:
        session.slots.pull(message["slot_ids"])
    with torch.no_grad():
        for name, number, spec, offset in zip(
            names, message["slot_ids"], message["specs"], offsets, strict=True
        ):
            tensor = tensors.get(matched.get(name, name))
            if tensor is None:
                missing.append(name)
                continue
            _check(name, tensor, spec)
            place = session.slots[number].tensor(spec, offset)
            if message["write"]:
                tensor.copy_(place)
            else:
                place.copy_(tensor)
    if not message["write"]:
        session.slots.push(message["slot_ids"])
    session.settle()
    used = set(names) | set(matched.values())
    return {"missing": missing, "extra": [name for name in tensors if name not in used], "matched": matched}


def state_of(model: Any) -> dict[str, torch.Tensor]:
    """Every parameter and buffer by qualified name, tied ones under each name; empty for a function."""
    if not isinstance(model, torch.nn.Module):
        return {}
    found: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    found.update(model.named_buffers(remove_duplicate=False))
    return found


def _by_shape(
    names: list[str], specs: list[dict[str, Any]], tensors: dict[str, torch.Tensor]
) -> dict[str, str]:
    """Name asked for -> the model's name, where shape and dtype leave exactly one choice on both sides."""
    wanted: dict[tuple[Any, ...], list[str]] = {}
    for name, spec in zip(names, specs, strict=True):
        if name not in tensors:
            wanted.setdefault((tuple(spec["shape"]), spec["dtype"]), []).append(name)
    free: dict[tuple[Any, ...], list[str]] = {}
    for name, tensor in tensors.items():
        if name not in names:
            free.setdefault((tuple(tensor.shape), _word(tensor.dtype)), []).append(name)
    pairs = {key: (asked, free.get(key, [])) for key, asked in wanted.items()}
    return {asked[0]: there[0] for asked, there in pairs.values() if len(asked) == len(there) == 1}


def _check(name: str, tensor: torch.Tensor, spec: dict[str, Any]) -> None:
    if list(tensor.shape) != list(spec["shape"]):
        raise Failure(
            "wrong-shape", f"{name} has shape {list(tensor.shape)}, should be {list(spec['shape'])}"
        )
    if _word(tensor.dtype) != spec["dtype"]:
        raise Failure("wrong-dtype", f"{name} is {_word(tensor.dtype)}, should be {spec['dtype']}")


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
