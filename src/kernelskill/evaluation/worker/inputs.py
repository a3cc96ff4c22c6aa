"""Fresh inputs from the judge's secret seed, written into its slots."""

from __future__ import annotations

import random
from typing import Any

import torch

from .protocol import Failure
from .reference import evaluated
from .session import Session
from .slots import storage_elements
from .tree import encode


def handle_inputs(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Draw one set of inputs.

    Message: `seed` (an integer), `slots` (per tensor leaf: slot number), `offsets` (bytes), `specs` (the layouts
    that the judge expects).

    Raises:
        Failure: the task gives other shapes than the first time.
    """
    leaves, tree = draw(session, int(message["seed"]))
    specs = message["specs"]
    if len(leaves) != len(specs):
        raise Failure("wrong-shape", f"get_inputs gave {len(leaves)} tensors, first {len(specs)}")
    for place, (leaf, spec, slot, offset) in enumerate(
        zip(leaves, specs, message["slots"], message["offsets"], strict=True)
    ):
        if list(leaf.shape) != list(spec["shape"]) or str(leaf.dtype) != f"torch.{spec['dtype']}":
            raise Failure(
                "wrong-shape",
                f"input {place} changed from {spec['shape']} {spec['dtype']} to {list(leaf.shape)} {leaf.dtype}",
            )
        target = session.slots[slot].tensor(spec, offset)
        if storage_elements(spec["shape"], spec["stride"]):
            target.copy_(leaf) if 0 not in spec["stride"] else _fill_expanded(target, leaf)
    return {"tree": tree}


def draw(session: Session, seed: int) -> tuple[list[torch.Tensor], Any]:
    """Inputs of the task under a seed: tensor leaves and the tree of arguments."""
    seed_all(seed)
    reference = session.extra["reference"]
    if reference["laws"]:
        leaves = [from_law(law) for law in reference["laws"]]
        return leaves, reference["inputs_tree"]
    if reference["loader"] == "pickle":
        value = session.extra["names"]["inputs"]
        value = value() if callable(value) and not isinstance(value, torch.Tensor) else value
    else:
        value = evaluated(session, reference["inputs_entry"], reference["inputs_expression"])
    return encoded(value)


def encoded(value: Any) -> tuple[list[torch.Tensor], Any]:
    """Arguments as tensor leaves and a tree: list = positional, dict = by keyword."""
    if isinstance(value, torch.Tensor):
        value = [value]
    if isinstance(value, tuple):
        value = list(value)
    if (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], list | tuple)
        and isinstance(value[1], dict)
        and not value[1]
    ):
        value = list(value[0])
    if not isinstance(value, list | dict):
        raise Failure(
            "runtime-error",
            f"get_inputs gave a {type(value).__name__}; give a list of arguments or a dict of keyword arguments",
        )
    leaves: list[Any] = []
    tree = encode(value, leaves)
    return [leaf.detach() for leaf in leaves], tree


def from_law(law: dict[str, Any]) -> torch.Tensor:
    """Fresh values of one tensor by its fitted law, in the layout of the example."""
    spec = law["spec"]
    dtype = getattr(torch, spec["dtype"])
    base_shape = [1 if step == 0 else size for size, step in zip(spec["shape"], spec["stride"], strict=True)]
    kind = law["kind"]
    if kind == "boolean":
        values = torch.rand(base_shape) < law["rate"]
    elif kind == "integer":
        low, high = int(law["low"]), int(law["high"])
        values = torch.randint(low, max(high, low + 1), base_shape)
    elif kind == "constant":
        values = torch.full(base_shape, law["low"])
    elif kind == "uniform":
        values = torch.rand(base_shape) * (law["high"] - law["low"]) + law["low"]
    else:
        values = torch.randn(base_shape) * law["std"] + law["mean"]
    values = values.to(dtype)
    if 0 in spec["stride"] and 0 not in spec["shape"]:
        return values.expand(spec["shape"])
    laid = torch.empty_strided(spec["shape"], spec["stride"], dtype=dtype)
    return laid.copy_(values)


def seed_all(seed: int) -> None:
    """Seed every generator that a task's Python may use."""
    torch.manual_seed(seed % (1 << 63))
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed % (1 << 32))


def _fill_expanded(target: torch.Tensor, leaf: torch.Tensor) -> None:
    """An expanded tensor keeps one copy of its values."""
    index = tuple(slice(0, 1) if step == 0 else slice(None) for step in target.stride())
    target[index].copy_(leaf[index])
