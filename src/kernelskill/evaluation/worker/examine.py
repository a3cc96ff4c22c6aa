"""What one look at the reference tells: shapes, state, and what its results depend on."""

from __future__ import annotations

import inspect
import time
from typing import Any

import torch

from .capture import graph_of, tensor_spec
from .inputs import draw, seed_all
from .protocol import Failure
from .reference import constructor_arguments, init_arguments, wrapped
from .session import Session
from .tree import arguments, encode

SAME = 1e-6
"""Relative spread below which results count as equal."""
DRAWS = 3
"""Inputs (and, apart from them, parameters) over which a result must vary to prove anything."""


def handle_describe(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Everything of `records.Workload` that the reference can tell. Message: `seed`.

    Raises:
        Failure: the reference does not run on its own inputs; one clear line.
    """
    model = wrapped(session)
    seed = int(message["seed"])
    leaves, tree = draw(session, seed)
    args, kwargs = arguments(tree, leaves)
    _materialize(model, args, kwargs)
    kept = {name: buffer.clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
    copies = [leaf.clone() for leaf in leaves]
    result, eager_ms = _timed(model, args, kwargs, seed)
    outputs: list[Any] = []
    outputs_tree = encode(result, outputs, numbers=True)
    tensors = [item if isinstance(item, torch.Tensor) else torch.tensor(item) for item in outputs]
    updated = [
        name
        for name, buffer in model.named_buffers(remove_duplicate=False)
        if not torch.equal(buffer, kept[name])
    ]
    findings = _mutations(leaves, copies)
    _restore(model, kept)
    findings += _variation(session, model, tensors, seed, kept)
    graph, reason = graph_of(model, tuple(args), kwargs)
    _restore(model, kept)
    reference = session.extra["reference"]
    return {
        "inputs": [tensor_spec(leaf) for leaf in leaves],
        "inputs_tree": tree,
        "outputs": [_result_spec(item) for item in tensors],
        "outputs_tree": outputs_tree,
        "state": _state(model),
        "updated_state": updated,
        "init_args": _init_tree(reference, session.extra["names"]),
        "eager_ms": eager_ms,
        "findings": findings,
        "graph": graph,
        "capture_error": reason,
        "class_source": _class_source(session),
    }


def _timed(model: Any, args: Any, kwargs: Any, seed: int) -> tuple[Any, float]:
    with torch.no_grad():
        try:
            seed_all(seed)
            result = model(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  the reference may raise anything
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            if "CUDA" in str(error) or "NVIDIA" in str(error):
                text = "the task needs cuda; this is the cpu target"
            raise Failure("runtime-error", f"the reference does not run on its own inputs: {text}") from None
        kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
        began = time.perf_counter()
        model(*args, **kwargs)
        elapsed = time.perf_counter() - began
        _restore(model, kept)
    return result, 1e3 * elapsed


def _materialize(model: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """Lazy modules get their shapes from one forward."""
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        with torch.no_grad():
            model(*args, **kwargs)


def _mutations(leaves: list[torch.Tensor], copies: list[torch.Tensor]) -> list[dict[str, Any]]:
    changed = [
        place
        for place, (leaf, copy) in enumerate(zip(leaves, copies, strict=True))
        if not torch.equal(torch.nan_to_num(leaf), torch.nan_to_num(copy))
    ]
    if not changed:
        return []
    return [finding("mutates-inputs", f"forward writes to input {changed[0]}: that is not supported", True)]


def _variation(
    session: Session, model: torch.nn.Module, first: list[torch.Tensor], seed: int, kept: dict[str, torch.Tensor]
) -> list[dict[str, Any]]:
    """Stochastic, constant, non-finite and empty results."""
    if all(item.numel() == 0 for item in first):
        return [finding("empty-output", "all results are empty: nothing can be compared", True)]
    floating = [item for item in first if item.is_floating_point() and item.numel()]
    if floating and all(not torch.isfinite(item).any() for item in floating):
        return [finding("non-finite", "every element of the result is NaN or infinite", True)]
    leaves, tree = draw(session, seed)
    args, kwargs = arguments(tree, leaves)
    found = []
    again = _run(model, args, kwargs, kept, noise=seed + 1)
    if not _alike(first, again, 0.0):
        found.append(
            finding("stochastic", "two runs on the same inputs differ (dropout, random state in forward)", True)
        )
    others = []
    for step in range(1, DRAWS):
        leaves, tree = draw(session, seed + 1000 * step)
        args, kwargs = arguments(tree, leaves)
        others.append(_run(model, args, kwargs, kept, noise=seed))
    if leaves and all(_alike(first, other, SAME) for other in others):
        found.append(
            finding("input-independent", f"output constant over {DRAWS} inputs: any constant would pass", True)
        )
    return found


def _run(model: Any, args: Any, kwargs: Any, kept: dict[str, torch.Tensor], noise: int) -> list[torch.Tensor]:
    seed_all(noise)
    with torch.no_grad():
        result = model(*args, **kwargs)
    _restore(model, kept)
    leaves: list[Any] = []
    encode(result, leaves, numbers=True)
    return [item if isinstance(item, torch.Tensor) else torch.tensor(item) for item in leaves]


def _alike(left: list[torch.Tensor], right: list[torch.Tensor], relative: float) -> bool:
    """Whether results are equal up to a share of their own scale."""
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        if one.shape != other.shape:
            return False
        if not one.is_floating_point() or relative == 0.0:
            if not torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)):
                return False
            continue
        scale = torch.nan_to_num(one.double()).abs().max() if one.numel() else torch.tensor(0.0)
        apart = torch.nan_to_num(one.double() - other.double()).abs().max() if one.numel() else scale
        if apart > relative * scale:
            return False
    return True


def _state(model: torch.nn.Module) -> list[dict[str, Any]]:
    persistent = set(model.state_dict(keep_vars=True))
    first: dict[int, str] = {}
    entries = []
    named = [
        *(("parameter", *item) for item in model.named_parameters(remove_duplicate=False)),
        *(("buffer", *item) for item in model.named_buffers(remove_duplicate=False)),
    ]
    for kind, path, tensor in named:
        entries.append(
            {
                "path": path,
                "spec": tensor_spec(tensor),
                "kind": kind,
                "persistent": path in persistent,
                "tied_to": first.get(id(tensor), ""),
            }
        )
        first.setdefault(id(tensor), path)
    return entries


def _restore(model: torch.nn.Module, kept: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in model.named_buffers(remove_duplicate=False):
            if name in kept:
                buffer.copy_(kept[name])


def _result_spec(tensor: torch.Tensor) -> dict[str, Any]:
    """Results are compared row-major, whatever their strides are."""
    return tensor_spec(torch.empty(tensor.shape, dtype=tensor.dtype, device="meta"))


def _init_tree(reference: dict[str, Any], names: dict[str, Any]) -> Any:
    """Constructor arguments as a tree, or None where they hold what has no form (or for a ready object)."""
    if reference["kind"] == "function" or reference["loader"] == "pickle":
        return None
    args, kwargs = constructor_arguments(init_arguments(reference, names))
    try:
        leaves: list[Any] = []
        tree = encode(kwargs if kwargs and not args else args, leaves)
        return None if leaves else tree
    except Failure:
        return None


def _class_source(session: Session) -> str:
    """Text of the module that defines the entry."""
    if session.extra["reference"]["source"]:
        return ""
    target = session.model if not isinstance(session.model, torch.nn.Module) else type(session.model)
    try:
        module = inspect.getmodule(target)
        return inspect.getsource(module) if module is not None and module.__name__ != "__main__" else ""
    except (OSError, TypeError):
        return ""


def finding(code: str, message: str, fatal: bool) -> dict[str, Any]:
    """One entry of the audit."""
    return {"code": code, "message": message, "fatal": fatal}
