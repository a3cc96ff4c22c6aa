"""The reference in float64, operator by operator.

Every floating tensor that an operator reads or makes is widened, and dtype arguments ask for float64, so that
`.float()`, tensors made in forward, tensors kept as plain attributes and autocast do not bring single precision back.
Python code sees float64 tensors; integers and booleans stay what they are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .protocol import Failure
from .reference import wrapped
from .session import BoundCall, Session
from .snapshot import attributes_of, put_back
from .tree import pick

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
SINGLE_EPS = torch.finfo(torch.float32).eps
"""What `eps=None` means to a norm of single-precision tensors."""


class Widen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every operator on float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operator with its floating arguments and results widened."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            return tree_map(_wide, func(*args, **kwargs))  # in its own dtype: the random stream depends on it
        wide_args, wide_kwargs = tree_map(_wide_or_dtype, args), tree_map(_wide_or_dtype, kwargs)
        result = tree_map(_wide, func(*wide_args, **wide_kwargs))
        return _written_back(func, args, kwargs, wide_args, wide_kwargs, result)


class SingleEps(TorchFunctionMode):
    """Gives rms_norm the eps that it takes by default from the dtype of its input, which is another one here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """rms_norm(input, normalized_shape, weight=None, eps=None)."""
        kwargs = dict(kwargs or {})
        if func in (torch.rms_norm, torch.nn.functional.rms_norm):
            if len(args) > 3:
                args = (*args[:3], SINGLE_EPS if args[3] is None else args[3])
            elif kwargs.get("eps") is None:
                kwargs["eps"] = SINGLE_EPS
        return func(*args, **kwargs)


def _written_back(func: Any, args: Any, kwargs: Any, wide_args: Any, wide_kwargs: Any, result: Any) -> Any:
    """What an in-place operator wrote to a widened copy goes to the tensor that was meant."""
    if not func._schema.is_mutable:
        return result
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given, wide = (args, wide_args) if place < len(args) else (kwargs, wide_kwargs)
        key = place if place < len(args) else argument.name
        if place >= len(args) and key not in kwargs:
            continue
        if isinstance(given[key], torch.Tensor) and given[key] is not wide[key]:
            given[key].copy_(wide[key])
            result = given[key] if result is wide[key] else result
    return result


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in WIDE:
        return value.to(WIDE[value.dtype])
    return value


def widened(leaf: torch.Tensor) -> torch.Tensor:
    """An argument as the twin takes it; one that is widened is memory of its own."""
    wide: torch.Tensor = _wide(leaf)
    return wide


def _wide_or_dtype(value: Any) -> Any:
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else _wide(value)


def handle_run64(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Run the twin on bound calls, into outputs that were bound as float64.

    The state of the reference is not changed. Message: `order`. Reply: `notes`, one per call ("" = widened operator by
    operator, else why it had to be a plain `.double()` copy).

    Raises:
        Failure: the twin raises in both of its forms, or gives another shape.
    """
    notes = []
    session.slots.pull(session.bound_slots)
    for index in message["order"]:
        notes.append(_one(session, session.bound[index]))
        session.trim()
    session.slots.push(session.bound_slots)
    session.settle()
    return {"notes": notes}


def handle_state64(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """The twin's parameters and buffers after bound calls, each from the state that the one before has left.

    The state of the reference is not changed. Message: `order`, and `names`, `slot_ids`, `specs` and `offsets` as of
    `state`, whose tensors get the values rounded to their own type. Reply: `missing`.

    Raises:
        Failure: the twin raises in both of its forms.
    """
    session.slots.pull(session.bound_slots)
    state = twin_state(wrapped(session), [session.bound[index] for index in message["order"]])
    missing = []
    for name, number, spec, offset in zip(
        message["names"], message["slot_ids"], message["specs"], message["offsets"], strict=True
    ):
        if name in state:
            session.slots[number].tensor(spec, offset).copy_(state[name])
        else:
            missing.append(name)
    session.slots.push(message["slot_ids"])
    session.settle()
    return {"missing": missing}


def _one(session: Session, item: BoundCall) -> str:
    """The note of one call; its tensors end with this function."""
    result, note = twin_result(wrapped(session), item.args, item.kwargs)
    leaves: list[Any] = []
    pick(session.outputs_tree, result, leaves)
    for place, (leaf, view) in enumerate(zip(leaves, item.outputs, strict=True)):
        tensor = torch.as_tensor(leaf)
        if tensor.shape != view.shape:
            detail = f"its output {place} has shape {list(tensor.shape)}, eager's has {list(view.shape)}"
            raise Failure("runtime-error", f"no float64 twin: {detail}")
        view.copy_(tensor.detach())
    return note


def twin_result(model: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, str]:
    """The model's result in float64, and "" or why a plain `.double()` copy was needed.

    The model is left as it was.

    Raises:
        Failure: both forms raise.
    """
    args, kwargs = tuple(tree_map(_wide, args)), tree_map(_wide, kwargs)
    try:
        with torch.no_grad(), _wide_attributes(model):
            state = _wide_state(model)
            with SingleEps(), Widen():  # type: ignore[no-untyped-call]
                return torch.func.functional_call(model, state, args, kwargs, tie_weights=False), ""
    except Exception as error:  # noqa: BLE001  any operator may refuse to be widened
        first = f"{type(error).__name__}: {error}"
    try:
        double = copy.deepcopy(model).double()
        with torch.no_grad():
            return double(*args, **kwargs), f"by .double(): {first[:200]}"
    except Exception as error:  # noqa: BLE001  the reference may refuse float64 altogether
        raise Failure("runtime-error", f"no float64 twin: {first[:300]}; as .double(): {error}") from None


def twin_state(model: torch.nn.Module, calls: Sequence[BoundCall]) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, in float64, after calls in a row; the model is left as it was.

    Raises:
        Failure: both forms raise.
    """
    try:
        with torch.no_grad(), _wide_attributes(model):
            state = _wide_state(model)
            for call in calls:
                args, kwargs = tuple(tree_map(_wide, call.args)), tree_map(_wide, call.kwargs)
                with SingleEps(), Widen():  # type: ignore[no-untyped-call]
                    torch.func.functional_call(model, state, args, kwargs, tie_weights=False)
            return state
    except Exception as error:  # noqa: BLE001  any operator may refuse to be widened
        first = f"{type(error).__name__}: {error}"
    try:
        double = copy.deepcopy(model).double()
        with torch.no_grad():
            for call in calls:
                double(*tree_map(_wide, call.args), **tree_map(_wide, call.kwargs))
        return {**dict(double.named_parameters()), **dict(double.named_buffers())}
    except Exception as error:  # noqa: BLE001  the reference may refuse float64 altogether
        raise Failure("runtime-error", f"no float64 twin: {first[:300]}; as .double(): {error}") from None


def _wide_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Widened copies of parameters and buffers under every name; tied ones stay one tensor."""
    copies: dict[int, torch.Tensor] = {}
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for _, tensor in named:
        if id(tensor) not in copies:
            copies[id(tensor)] = _wide(tensor.detach()).clone()
    return {name: copies[id(tensor)] for name, tensor in named}


@contextmanager
def _wide_attributes(model: torch.nn.Module) -> Iterator[None]:
    """Tensors kept as plain attributes are widened copies inside, and what forward rebinds is undone."""
    before = attributes_of(model)
    try:
        for prefix, module in model.named_modules():
            for name, value in before[prefix].items():
                if isinstance(value, torch.Tensor):
                    vars(module)[name] = _wide(value.detach()).clone()
        yield
    finally:
        put_back(model, before)
