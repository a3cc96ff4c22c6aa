"""A call with one row less: whether a program is for the shapes of the task alone."""

from __future__ import annotations

from typing import Any

import torch

from .failures import describe
from .protocol import Failure
from .session import Session
from .tree import arguments, pick


def handle_smaller(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Call forward with the first dimension of every input that shares the first input's length cut by one.

    The results' elements, row-major, go to the beginning of each output of the first bound call.

    Reply: `times_us` (zeros), `flags`: one text per output, its shape ("63x1024").

    Raises:
        Failure: forward raised, or a result is not a tensor that fits.
    """
    session.slots.pull(session.bound_slots)
    item = session.bound[0]
    tree = session.extra["tree"]
    length = next((leaf.shape[0] for leaf in item.inputs if leaf.dim()), 0)
    if length < 2:
        raise Failure("runtime-error", "nothing can be cut from these inputs")
    leaves = [
        leaf[: length - 1].clone() if leaf.dim() and leaf.shape[0] == length else leaf for leaf in item.inputs
    ]
    args, kwargs = arguments(tree, leaves)
    found: list[Any] = []
    try:
        with torch.no_grad():
            pick(session.outputs_tree, session.callable()(*args, **kwargs), found)
            session.settle()
            shapes = [_stored(leaf, view) for leaf, view in zip(found, item.outputs, strict=True)]
        session.settle()
        session.slots.push(session.bound_slots)
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        told = describe(error, session)
        raise Failure(told["status"], told["detail"], told["hint"]) from None
    return {"times_us": [0.0] * len(message["order"]), "flags": shapes}


def _stored(leaf: Any, view: torch.Tensor) -> str:
    """Copy a result's elements to the beginning of an output; its shape in words."""
    if not isinstance(leaf, torch.Tensor) or leaf.numel() > view.numel() or leaf.dtype != view.dtype:
        raise Failure("wrong-shape", "a result does not fit")
    view.reshape(-1)[: leaf.numel()].copy_(leaf.reshape(-1))
    return "x".join(map(str, leaf.shape))
