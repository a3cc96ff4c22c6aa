"""One look at the reference: shapes, state, graph, and what its results depend on."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from typing import Any

import torch

from .audit import Audit, Repeat, as_tensors, finding, repeat_of
from .capture import graph_of, tensor_spec
from .draws import Draws
from .estimate import refuse_too_big
from .inputs import draw, seed_all
from .reference import constructor_arguments, init_arguments, wrapped
from .refusal import refused
from .session import Session
from .snapshot import Snapshot, loose_tensors, same_bytes
from .tree import arguments, encode

MORE, SHORT_MS = 2, 20.0
"""How often a call is timed again that is over so soon that what else goes on in the process decides its time."""


def handle_describe(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Everything of `records.Workload` that the reference can tell. Message: `seed`.

    Raises:
        Failure: the reference does not run on its own inputs; the detail's first line says why.
    """
    model = wrapped(session)
    seed = int(message["seed"])
    refuse_too_big(session, model)
    before = Snapshot.of(model)
    first = _first_look(session, model, before, seed)
    eager_ms, repeat = _timed(session, model, before, first, seed)
    draws = Draws(session, seed)
    if not any(item["fatal"] for item in first.findings):
        audit = Audit(draws, model, before, seed, first.tree)
        first.findings += audit.findings(first.results, repeat)
    first.results.clear()
    before.restore(model)
    graph, reason = graph_of(model, *arguments(first.tree, draws.copies(0)), first.leaves)
    if graph is not None:
        graph["outputs_tree"] = first.outputs_tree
    return {
        "inputs": first.inputs,
        "inputs_tree": first.tree,
        "outputs": first.outputs,
        "outputs_tree": first.outputs_tree,
        "state": _state(model),
        "updated_state": first.updated,
        "init_args": _init_tree(session),
        "eager_ms": eager_ms,
        "findings": first.findings,
        "graph": graph,
        "capture_error": reason,
        "class_source": _class_source(session),
    }


def handle_time(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of a warm call, once more, now that nothing else goes on. Message: `seed`."""
    model = wrapped(session)
    seed = int(message["seed"])
    before = Snapshot.of(model)
    leaves, tree = draw(session, seed)
    times = []
    for _ in range(1 + MORE):
        args, kwargs = arguments(tree, leaves)
        eager_ms, results = _one_timed(session, model, args, kwargs, seed)
        results.clear()
        before.restore_state(model)
        times.append(eager_ms)
    return {"eager_ms": min(times)}


@dataclass
class _First:
    """What the first run told. Of its tensors only those are left that later runs need."""

    inputs: list[dict[str, Any]]
    """Specs of the input leaves."""
    tree: Any
    copies: list[torch.Tensor]
    """The inputs as they were before the run."""
    outputs: list[dict[str, Any]]
    outputs_tree: Any
    results: list[torch.Tensor]
    """Copies: what comes later may overwrite what the model handed out."""
    leaves: list[Any]
    """Leaves of the result by kind: numbers, and tensors without their elements."""
    updated: list[str]
    findings: list[dict[str, Any]]


def _first_look(session: Session, model: torch.nn.Module, before: Snapshot, seed: int) -> _First:
    """Run once on fresh inputs; the state comes back."""
    leaves, tree = draw(session, seed)
    inputs = [tensor_spec(leaf) for leaf in leaves]
    copies = [leaf.clone() for leaf in leaves]
    result = _first_run(session, model, *arguments(tree, leaves), seed)
    outputs: list[Any] = []
    outputs_tree = encode(result, outputs, numbers=True)
    updated, loose = before.changed(model)
    findings = _mutations(leaves, copies) + _plain_tensors(before, loose)
    del leaves, result
    kinds = [_meta(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in outputs]
    results = [as_tensors([outputs.pop(0)])[0].clone() for _ in range(len(outputs))]
    before.restore_state(model)
    specs = [tensor_spec(_meta(item)) for item in results]
    return _First(inputs, tree, copies, specs, outputs_tree, results, kinds, updated, findings)


def _first_run(session: Session, model: Any, args: Any, kwargs: Any, seed: int) -> Any:
    try:
        seed_all(seed)
        with torch.no_grad():
            return model(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  the reference may raise anything
        raise refused(error, session, "the reference does not run on its own inputs") from None


def _timed(
    session: Session, model: torch.nn.Module, before: Snapshot, first: _First, seed: int
) -> tuple[float, Repeat]:
    """A warm call on the same inputs and random numbers, milliseconds, and how it compares with the first.

    The copies of the inputs end here; the state comes back.
    """
    args, kwargs = arguments(first.tree, first.copies)
    eager_ms, results = _one_timed(session, model, args, kwargs, seed)
    repeat = repeat_of(first.results, results)
    before.restore_state(model)
    for _ in range(MORE if eager_ms < SHORT_MS else 0):
        results.clear()
        again_ms, results = _one_timed(session, model, args, kwargs, seed)
        eager_ms = min(eager_ms, again_ms)
        before.restore_state(model)
    first.copies.clear()
    return eager_ms, repeat


def _one_timed(
    session: Session, model: torch.nn.Module, args: Any, kwargs: Any, seed: int
) -> tuple[float, list[torch.Tensor]]:
    seed_all(seed)
    session.settle()
    with torch.no_grad():
        began = time.perf_counter()
        result = model(*args, **kwargs)
        session.settle()
        elapsed = time.perf_counter() - began
    leaves: list[Any] = []
    encode(result, leaves, numbers=True)
    return 1e3 * elapsed, as_tensors(leaves)


def _mutations(leaves: list[torch.Tensor], copies: list[torch.Tensor]) -> list[dict[str, Any]]:
    for place, (leaf, copy) in enumerate(zip(leaves, copies, strict=True)):
        if not same_bytes(leaf, copy):
            message = f"forward writes to input {place}: later calls would see other inputs; clone it first"
            return [finding("mutates-inputs", message, True)]
    return []


def _plain_tensors(before: Snapshot, rebound: list[str]) -> list[dict[str, Any]]:
    names = sorted(loose_tensors(before.attributes))
    if not names and not rebound:
        return []
    message = f"tensors that are neither parameters nor buffers: {', '.join(names or rebound)}"
    message += "; they are not copied into candidates (register_buffer makes them state)"
    if rebound:
        message += f"; forward changes {', '.join(rebound)}, which is not compared"
    return [finding("plain-tensors", message, False)]


def _state(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Parameters and buffers in the order of the state dict, tied ones under each name."""
    persistent = set(model.state_dict(keep_vars=True))
    first: dict[int, str] = {}
    entries = []
    for prefix, module in model.named_modules(remove_duplicate=False):
        own = [
            *(("parameter", name, tensor) for name, tensor in module._parameters.items()),
            *(("buffer", name, tensor) for name, tensor in module._buffers.items()),
        ]
        for kind, name, tensor in own:
            if tensor is None:
                continue
            path = f"{prefix}.{name}".lstrip(".")
            tied = first.setdefault(id(tensor), path)
            entries.append(
                {
                    "path": path,
                    "spec": tensor_spec(tensor),
                    "kind": kind,
                    "persistent": path in persistent,
                    "tied_to": tied if tied != path else "",
                }
            )
    return entries


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    """The same without its elements, and row-major: results are compared so, whatever their strides are."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def _init_tree(session: Session) -> Any:
    """Constructor arguments as a tree, or None where they hold what has no form (or for a ready object)."""
    reference, names = session.extra["reference"], session.extra["names"]
    target = names["object"] if reference["loader"] == "pickle" else names[reference["entry"]]
    if not isinstance(target, type):
        return None
    try:
        args, kwargs = constructor_arguments(init_arguments(reference, names))
        leaves: list[Any] = []
        if args and kwargs:
            args, kwargs = [], dict(inspect.signature(target).bind(*args, **kwargs).arguments)
        tree = encode(kwargs or args, leaves)
        return None if leaves else tree
    except Exception:  # noqa: BLE001  not every argument has a form; the writer then goes without
        return None


def _class_source(session: Session) -> str:
    """Text of the module that defines the entry, where the task does not carry it."""
    if session.extra["reference"]["source"]:
        return ""
    target = session.model if not isinstance(session.model, torch.nn.Module) else type(session.model)
    try:
        module = inspect.getmodule(target)
        return inspect.getsource(module) if module is not None and module.__name__ != "__main__" else ""
    except (OSError, TypeError):
        return ""
