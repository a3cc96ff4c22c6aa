"""Bind calls to slots and run them: the one path that every timed arm takes.

References to everything used while a call is timed are taken when this file is loaded, before any candidate.
That only keeps honest code honest: the judge believes no number from here without its own clock and check.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from . import settings
from .candidate import is_build_error
from .failures import describe
from .protocol import Failure
from .session import BoundCall, Session
from .slots import storage_elements
from .tree import arguments, decode, head, pick

Tensor = torch.Tensor
Parameter = torch.nn.Parameter
_copy = torch.Tensor.copy_
_storage = torch.Tensor.untyped_storage
_offset = torch.Tensor.storage_offset
_data = torch.Tensor.data_ptr
_strided = torch.strided
_no_grad = torch.no_grad
OWN_MEMORY = "the result lies in memory that the judge has lent for copies of results"
Store = Callable[[Any, "list[Any]"], None]


def handle_bind(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Declare `count` calls.

    Message: `inputs` and `outputs`, one entry per leaf: `{"slot", "spec", "offset", "step"}` (call i lies at
    offset + i * step bytes; step defaults to 0) or `{"slot", "spec", "offsets": [one per call]}`; `tree` the
    nesting of the arguments (list = positional, dict = by keyword); `outputs_tree` that of the result (default: one
    tensor, or a tuple if there are several outputs); `count`. An output's stride must not overlap itself.
    """
    count = message["count"]
    specs = [leaf["spec"] for leaf in message["outputs"]]
    session.outputs_spec = specs
    session.outputs_tree = message.get("outputs_tree") or _plain_tree(len(specs))
    tree = message.get("tree") or {"list": [{"tensor": k} for k in range(len(message["inputs"]))]}
    session.bound = []
    session.bound_slots = tuple(leaf["slot"] for leaf in (*message["inputs"], *message["outputs"]))
    session.extra["tree"] = tree
    for index in range(count):
        inputs = [_view(session, leaf, index) for leaf in message["inputs"]]
        outputs = [_view(session, leaf, index) for leaf in message["outputs"]]
        args, kwargs = arguments(tree, inputs)
        session.bound.append(BoundCall(args, kwargs, inputs, outputs))
    session.extra["settings"] = session.extra.get("settings") or settings.snapshot()
    session.extra.pop("ready", None)
    session.extra.pop("copies", None)
    session.extra["store"] = make_store(
        session.outputs_tree,
        specs,
        session.device,
        span([view for item in session.bound for view in item.outputs]),
    )
    session.extra["clock"] = _clock(session)
    return {}


def handle_run(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Call forward on bound calls in the given `order`; reply times, thread count, advisory flags.

    Message: `order`; `arm` where several share the worker.

    Raises:
        Failure: forward raised, or what it returned is not what it must be.
    """
    session.turn_to(message.get("arm", ""))
    return _run(session, session.callable(), message["order"])


def handle_null(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """As `run`, with a call that hands out tensors which were ready beforehand."""
    if "ready" not in session.extra:
        leaves = [
            torch.zeros(spec["shape"], dtype=getattr(torch, spec["dtype"]), device=session.device)
            for spec in session.outputs_spec
        ]
        session.extra["ready"] = _ready(session.outputs_tree, leaves)
    ready, clock = session.extra["ready"], None
    if session.device == "cuda" and not _holds_numbers(session.outputs_tree):
        from .cuda import Copies

        clock = session.extra.setdefault("copies", Copies(session.extra["store"], ready))
    return _run(session, lambda *_args, **_kwargs: ready, message["order"], clock)


def _run(session: Session, call: Callable[..., Any], order: list[int], clock: Any = None) -> dict[str, Any]:
    bound, store, clock = session.bound, session.extra["store"], clock or session.extra["clock"]
    try:
        session.slots.pull(session.bound_slots)
        with _no_grad():
            times = clock.times(call, store, bound, order)
        session.slots.push(session.bound_slots)
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        told = describe(error, session, status="build-error" if is_build_error(error) else "runtime-error")
        raise Failure(told["status"], told["detail"], told["hint"]) from None
    return {
        "times_us": [round(1e6 * value, 3) for value in times],
        "threads": settings.thread_count(),
        "flags": settings.changes(session.extra["settings"]),
    }


class HostClock:
    """Times calls on the CPU."""

    def times(
        self, call: Callable[..., Any], store: Store, bound: list[Any], order: list[int]
    ) -> list[float]:
        """Seconds of each call with the copy of its result."""
        clock = perf_counter
        times: list[float] = []
        note = times.append
        for index in order:
            item = bound[index]
            began = clock()
            store(call(*item.args, **item.kwargs), item.outputs)
            note(clock() - began)
        return times


def _clock(session: Session) -> Any:
    if session.device == "cpu":
        return HostClock()
    from .cuda import Clock

    return Clock()


def span(views: list[Any]) -> tuple[int, int]:
    """Addresses between which row-major tensors lie."""
    held = [(_data(view), view.numel() * view.element_size()) for view in views if view.numel()]
    if not held:
        return (0, 0)
    return min(start for start, _ in held), max(start + size for start, size in held)


def make_store(
    tree: Any, specs: list[dict[str, Any]], device: str = "cpu", lent: tuple[int, int] = (0, 0)
) -> Store:
    """The function that checks a result and copies its bytes into the output views.

    Args:
        tree: nesting that the result must have.
        specs: TensorSpec JSON per leaf; shape and dtype are checked, strides are free.
        device: where results must lie.
        lent: addresses of the output slot: a result that lies there already would be copied for nothing.
    """
    dues = [(tuple(spec["shape"]), getattr(torch, spec["dtype"])) for spec in specs]
    if tree == {"tensor": 0}:
        shape, dtype = dues[0]

        def store_one(value: Any, outputs: list[Any]) -> None:
            _check(value, shape, dtype, "output", device)
            if lent[0] <= _data(value) < lent[1]:
                raise Failure("integrity", OWN_MEMORY)
            _copy(outputs[0], value)

        return store_one

    names = leaf_names(tree)

    def store_all(value: Any, outputs: list[Any]) -> None:
        leaves: list[Any] = []
        pick(tree, value, leaves)
        for leaf, (shape, dtype), name, view in zip(leaves, dues, names, outputs, strict=True):
            _check(leaf, shape, dtype, name, device)
            if lent[0] <= _data(leaf) < lent[1]:
                raise Failure("integrity", OWN_MEMORY)
            _copy(view, leaf)

    return store_all


def leaf_names(tree: Any, where: str = "output") -> list[str]:
    """How messages call each leaf: "output", "output[1]", "output['loss']", "output.logits"."""
    word, content = head(tree)
    if word in ("tensor", "number"):
        return [where]
    if word == "object":
        return [name for key, item in tree["fields"].items() for name in leaf_names(item, f"{where}.{key}")]
    if word == "dict":
        return [name for key, item in content.items() for name in leaf_names(item, f"{where}[{key!r}]")]
    if word in ("list", "tuple"):
        return [name for index, item in enumerate(content) for name in leaf_names(item, f"{where}[{index}]")]
    return []


def _check(value: Any, shape: tuple[int, ...], dtype: torch.dtype, name: str, device: str) -> None:
    kind = type(value)
    if kind is not Tensor and kind is not Parameter:
        _refuse_type(value, name)
    if value.__dict__:
        _refuse_overrides(value, name)
    if value.shape != shape:
        raise Failure("wrong-shape", f"{name} has shape {list(value.shape)}, should be {list(shape)}")
    if value.dtype != dtype:
        due, found = (str(item).removeprefix("torch.") for item in (dtype, value.dtype))
        raise Failure(
            "wrong-dtype", f"{name} is {found}, should be {due}", f"end forward with .to(torch.{due})"
        )
    # A Python number has become a tensor on the CPU, whatever the device is.
    at_home = value.is_cpu if device == "cpu" else value.is_cuda or (value.is_cpu and not shape)
    if value.layout is not _strided or not at_home:
        raise Failure("integrity", f"{name} is a {value.layout} tensor on {value.device}, not plain memory")
    span = storage_elements(value.shape, value.stride())
    if span and (
        not _data(value) or _storage(value).nbytes() < (_offset(value) + span) * value.element_size()
    ):
        raise Failure("integrity", f"{name} has no memory behind all of its elements")


def _refuse_type(value: Any, name: str) -> None:
    found = type(value).__name__
    if isinstance(value, Tensor):
        raise Failure("integrity", f"{name} is a {found}, a subclass of Tensor; only plain tensors are taken")
    raise Failure("wrong-shape", f"{name} is a {found}, should be a tensor")


def _refuse_overrides(value: Any, name: str) -> None:
    taken = sorted(key for key in value.__dict__ if hasattr(Tensor, key))
    if taken:
        raise Failure("integrity", f"{name} carries its own {', '.join(taken)} in place of a tensor's")


def _view(session: Session, leaf: dict[str, Any], index: int) -> torch.Tensor:
    offset = (
        leaf["offsets"][index] if "offsets" in leaf else leaf.get("offset", 0) + index * leaf.get("step", 0)
    )
    return session.slots[leaf["slot"]].tensor(leaf["spec"], offset)


def _holds_numbers(tree: Any) -> bool:
    """Whether a result holds Python numbers, which lie in the processor's memory."""
    word, content = head(tree)
    if word == "object":
        return any(_holds_numbers(item) for item in tree["fields"].values())
    if word in ("list", "tuple", "dict"):
        return any(_holds_numbers(item) for item in (content.values() if word == "dict" else content))
    return word == "number"


def _plain_tree(count: int) -> Any:
    return {"tensor": 0} if count == 1 else {"tuple": [{"tensor": k} for k in range(count)]}


def _ready(tree: Any, leaves: list[Any]) -> Any:
    word, content = head(tree)
    if word == "number":
        return leaves[content].item()
    if word == "dict":
        return {key: _ready(item, leaves) for key, item in content.items()}
    if word == "object":
        namespace = decode({word: content, "fields": {}}, [])
        for name, item in tree["fields"].items():
            setattr(namespace, name, _ready(item, leaves))
        return namespace
    if word in ("list", "tuple"):
        items = [_ready(item, leaves) for item in content]
        return tuple(items) if word == "tuple" else items
    return decode(tree, leaves)
