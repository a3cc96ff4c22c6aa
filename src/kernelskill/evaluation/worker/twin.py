"""The reference in float64, operator by operator.

Every floating tensor that an operator reads is widened first, and dtype arguments ask for float64, so that `.float()`,
constants made in forward and autocast do not bring single precision back.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .protocol import Failure
from .reference import wrapped
from .session import Session
from .tree import pick

NARROW = frozenset([torch.float32, torch.float16, torch.bfloat16])
COMPLEX_NARROW = torch.complex64


class Widen(TorchDispatchMode):
    """Runs every operator on float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operator with its floating arguments widened."""
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            return self._in_place(func, args, kwargs)
        return func(*tree_map(_wide, args), **tree_map(_wide, kwargs))

    def _in_place(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What is written to keeps its dtype, unless it is the first argument and was widened before."""
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.dtype in NARROW:
            rest = tree_map(_wide, args[1:])
            result = func(first.double(), *rest, **tree_map(_wide, kwargs))
            if isinstance(result, torch.Tensor):
                first.copy_(result)
                return result if first.dtype == result.dtype else first
            return result
        return func(*tree_map(_wide, args), **tree_map(_wide, kwargs))


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dtype in NARROW:
            return value.double()
        return value.to(torch.complex128) if value.dtype == COMPLEX_NARROW else value
    if isinstance(value, torch.dtype) and value in NARROW:
        return torch.float64
    return value


def handle_run64(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Run the twin on bound calls, into outputs that were bound as float64.

    The state of the reference is not changed. Message: `order`.

    Raises:
        Failure: the twin raises in both of its forms.
    """
    notes = []
    for index in message["order"]:
        item = session.bound[index]
        result, note = twin_result(session, item.args, item.kwargs)
        leaves: list[Any] = []
        pick(session.outputs_tree, result, leaves)
        with torch.no_grad():
            for leaf, view in zip(leaves, item.outputs, strict=True):
                view.copy_(leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf))
        notes.append(note)
    return {"notes": notes}


def twin_result(session: Session, args: Any, kwargs: Any) -> tuple[Any, str]:
    """The reference's result in float64; a plain `.double()` copy where widening operators fails."""
    model = wrapped(session)
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    wide_args, wide_kwargs = tree_map(_wide, args), tree_map(_wide, kwargs)
    try:
        with torch.no_grad(), Widen():
            parameters = dict(model.named_parameters())
            buffers = dict(model.named_buffers())
            wide = {name: _wide(tensor.detach()).clone() for name, tensor in {**parameters, **buffers}.items()}
            result = torch.func.functional_call(model, wide, wide_args, wide_kwargs)
            session.extra["twin_state"] = wide
            return result, ""
    except Exception as error:  # noqa: BLE001  any operator may refuse to be widened
        first = f"{type(error).__name__}: {error}"
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])
    try:
        double = copy.deepcopy(model).double()
        with torch.no_grad():
            result = double(*wide_args, **wide_kwargs)
        session.extra["twin_state"] = dict(double.named_buffers())
        return result, f"by .double(): {first[:200]}"
    except Exception as error:  # noqa: BLE001  the reference may refuse float64 altogether
        raise Failure("runtime-error", f"no float64 twin: {first[:300]}; {error}") from None
