"""Fresh inputs from the judge's secret seed, written into its slots."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import random
from collections.abc import Iterator
from typing import Any

import torch

from .laws import from_law
from .protocol import Failure
from .refusal import NEEDS_CUDA, refused
from .session import Session
from .slots import storage_elements
from .tree import encode

DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "complex64", "complex128"),
        *("int64", "int32", "int16", "int8", "uint8", "bool"),
    )
)


def handle_inputs(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Draw a set of inputs for each seed.

    Message: `seeds` (integers), `slots` (per tensor leaf: slot number), `offsets` (bytes, of the first set), `step`
    (bytes from one set to the next), `specs` (the layouts that the judge expects).

    Raises:
        Failure: the task gives other shapes, types or strides than the first time.
    """
    for number, seed in enumerate(message["seeds"]):
        _drawn_into_slots(session, message, int(seed), number * message["step"])
    session.slots.push(message["slots"])
    session.settle()
    session.trim()
    return {}


def _drawn_into_slots(session: Session, message: dict[str, Any], seed: int, start: int) -> None:
    """One set, so many bytes further; the tensors end with this function."""
    leaves, _ = draw(session, seed)
    specs = message["specs"]
    if len(leaves) != len(specs):
        raise Failure("wrong-shape", f"get_inputs gave {len(leaves)} tensors, first {len(specs)}")
    for place, (leaf, spec, slot, offset) in enumerate(
        zip(leaves, specs, message["slots"], message["offsets"], strict=True)
    ):
        found, due = (list(leaf.shape), _word(leaf.dtype)), (list(spec["shape"]), spec["dtype"])
        if found != due:
            raise Failure(
                "wrong-shape", f"input {place} changed from {due[0]} {due[1]} to {found[0]} {found[1]}"
            )
        _write(session.slots[slot], spec, start + offset, leaf, place)


def draw(session: Session, seed: int) -> tuple[list[torch.Tensor], Any]:
    """Inputs of the task under a seed: tensor leaves and the tree of arguments.

    Raises:
        Failure: the task cannot give them; the detail's first line says why.
    """
    seed_all(seed)
    reference = session.extra["reference"]
    if reference["laws"]:
        fixed = session.extra["names"].get("fixed", {})
        with session.home():
            leaves = [fixed[k] if k in fixed else from_law(law) for k, law in enumerate(reference["laws"])]
        return [leaf.to(session.device) for leaf in leaves], reference["inputs_tree"]
    try:
        value = _value(session, seed)
        return encoded(value, session.model, device=session.device)
    except BaseException as error:  # noqa: BLE001  the task's own code may raise anything
        raise refused(error, session, "drawing the inputs") from None


def _value(session: Session, seed: int) -> Any:
    """What the task gives, made on the device; on the CPU where its code cannot do with that (its own generator)."""
    try:
        with no_other_seed(), session.home():
            return evaluated(session)
    except (RuntimeError, TypeError):
        if session.device == "cpu":
            raise
    seed_all(seed)
    with no_other_seed():
        return evaluated(session)


def evaluated(session: Session) -> Any:
    """What the task's own code gives as inputs."""
    reference, names = session.extra["reference"], session.extra["names"]
    if reference["loader"] == "pickle":
        value = names["inputs"]
    elif reference["inputs_entry"]:
        return names[reference["inputs_entry"]]()
    else:
        value = eval(reference["inputs_expression"], {"torch": torch, **names, "__builtins__": builtins})
    return value() if callable(value) and not isinstance(value, torch.Tensor) else value


def encoded(value: Any, model: Any, *, device: str = "cpu") -> tuple[list[torch.Tensor], Any]:
    """Arguments as tensor leaves and a tree: list = positional, dict = by keyword.

    Taken: one tensor, a list or tuple of arguments, a dict of keyword arguments, [arguments, keyword arguments].
    """
    if isinstance(value, torch.Tensor):
        value = [value]
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list) and _is_pair(value, model):
        value = _by_name(model, list(value[0]), value[1])
    if not isinstance(value, list | dict):
        raise Failure(
            "runtime-error",
            f"the inputs are a {type(value).__name__}; give a list of arguments or a dict of keyword arguments",
        )
    leaves: list[Any] = []
    tree = encode(value, leaves)
    return [_plain(leaf, place, device) for place, leaf in enumerate(leaves)], tree


@contextlib.contextmanager
def no_other_seed() -> Iterator[None]:
    """Seeds that the task's code sets itself don't count: every draw follows from the judge's seed alone."""
    places: list[Any] = [(torch, "manual_seed"), (torch.random, "manual_seed"), (random, "seed")]
    places += [(torch.cuda, "manual_seed"), (torch.cuda, "manual_seed_all")]
    with contextlib.suppress(ImportError):
        import numpy

        places.append((numpy.random, "seed"))
    kept = [(module, name, getattr(module, name)) for module, name in places]
    try:
        for module, name in places:
            setattr(module, name, lambda *_args, **_kwargs: None)
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


def seed_all(seed: int) -> None:
    """Seed every generator that a task's Python may use."""
    # torch.manual_seed writes a stack down for every kind of device that is not there.
    torch.default_generator.manual_seed(seed % (1 << 63))
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed % (1 << 63))
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed % (1 << 32))


def _is_pair(value: list[Any], model: Any) -> bool:
    """Whether a list is [arguments, keyword arguments] rather than two arguments."""
    if len(value) != 2 or not isinstance(value[0], list | tuple) or not isinstance(value[1], dict):
        return False
    try:
        _signature(model).bind(*value[0], **value[1])
    except TypeError:
        return False
    return True


def _by_name(model: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any] | dict[str, Any]:
    """All arguments in one form: positional where there are no others, else by keyword."""
    if not kwargs:
        return args
    signature = _signature(model)
    named: dict[str, Any] = {}
    for name, item in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].kind
        if kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise Failure(
                "runtime-error", f"forward takes {name} by position only; give all arguments in one list"
            )
        named.update(item if kind is inspect.Parameter.VAR_KEYWORD else {name: item})
    return named


def _signature(model: Any) -> inspect.Signature:
    return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)


def _plain(leaf: torch.Tensor, place: int, device: str) -> torch.Tensor:
    if device == "cuda" and leaf.is_cpu:  # made from numpy, or on the CPU by name
        leaf = leaf.to(device)
    if leaf.device.type != device:
        raise Failure("runtime-error", NEEDS_CUDA if leaf.is_cuda else f"input {place} is on {leaf.device}")
    if leaf.layout is not torch.strided or leaf.dtype not in DTYPES:
        what = _word(leaf.dtype) if leaf.layout is torch.strided else str(leaf.layout).removeprefix("torch.")
        raise Failure("runtime-error", f"input {place} is {what}; only plain dense tensors are supported")
    return leaf.detach().resolve_conj().resolve_neg()


def _write(slot: Any, spec: dict[str, Any], offset: int, leaf: torch.Tensor, place: int) -> None:
    """Copy a tensor's storage, expanded and overlapping ones included; where strides differ, its elements."""
    elements = storage_elements(spec["shape"], spec["stride"])
    if elements == 0:
        return
    steps = [
        (step, due)
        for size, step, due in zip(leaf.shape, leaf.stride(), spec["stride"], strict=True)
        if size > 1
    ]
    if all(step == due for step, due in steps):
        flat = {"shape": [elements], "stride": [1], "dtype": spec["dtype"]}
        slot.tensor(flat, offset).copy_(leaf.as_strided((elements,), (1,), leaf.storage_offset()))
    elif elements < leaf.numel():
        raise Failure(
            "wrong-shape", f"input {place} changed its strides from {spec['stride']} to {leaf.stride()}"
        )
    else:
        slot.tensor(spec, offset).copy_(leaf)


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
