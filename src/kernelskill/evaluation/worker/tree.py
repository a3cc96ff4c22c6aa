"""Nested arguments and results as JSON trees with numbered tensor leaves.

Beside the forms of `kernelskill.records.task`: `{"number": k, "type": "float"}` is a Python number that is leaf k
(a result computed from the inputs, held as a 0-dim tensor of `NUMBER_DTYPE`), `{"dtype": "float32"}` and
`{"complex": [re, im]}` are constants that JSON has no word for.
Leaves are counted depth first, in the order in which containers give their items.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch

from .protocol import Failure

NUMBER_DTYPE = {"float": "float64", "int": "int64", "bool": "bool", "complex": "complex128"}
NUMBER_TYPES: dict[str, type] = {"float": float, "int": int, "bool": bool, "complex": complex}
CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "dict": Mapping}


def encode(value: Any, leaves: list[Any], *, numbers: bool = False) -> Any:
    """Tree of a value; tensors are appended to `leaves`.

    Args:
        value: what to describe.
        leaves: grows by the tensors met (with `numbers`, by Python numbers too).
        numbers: make Python numbers leaves (for results) instead of constants (for arguments).

    Raises:
        Failure: something in it is of a kind that has no form here.
    """
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return {"tensor": len(leaves) - 1}
    if value is None or isinstance(value, str):
        return {"value": value}
    if isinstance(value, bool | int | float | complex):
        if numbers:
            kind = next(
                name for name in ("bool", "int", "float", "complex") if isinstance(value, NUMBER_TYPES[name])
            )
            leaves.append(value)
            return {"number": len(leaves) - 1, "type": kind}
        return {"complex": [value.real, value.imag]} if isinstance(value, complex) else {"value": value}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [item.name for item in dataclasses.fields(value)]
        fields = {name: encode(getattr(value, name), leaves, numbers=numbers) for name in names}
        return {"object": type(value).__name__, "fields": fields}
    if isinstance(value, tuple | list):
        word = "tuple" if isinstance(value, tuple) else "list"
        return {word: [encode(item, leaves, numbers=numbers) for item in value]}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise Failure("runtime-error", "a dict with keys that are not strings cannot be judged")
        return {"dict": {key: encode(item, leaves, numbers=numbers) for key, item in value.items()}}
    raise Failure(
        "runtime-error", f"a {type(value).__name__} cannot be judged; use tensors, numbers, containers"
    )


def decode(tree: Any, leaves: list[Any]) -> Any:
    """Value of a tree; objects become plain namespaces with the same fields."""
    if tree is None:
        return None
    word, content = head(tree)
    if word in ("tensor", "number"):
        return leaves[content]
    if word == "value":
        return content
    if word == "dtype":
        return getattr(torch, content)
    if word == "complex":
        return complex(*content)
    if word == "object":
        return SimpleNamespace(**{name: decode(item, leaves) for name, item in tree["fields"].items()})
    if word == "dict":
        return {key: decode(item, leaves) for key, item in content.items()}
    items = [decode(item, leaves) for item in content]
    return tuple(items) if word == "tuple" else items


def head(tree: dict[str, Any]) -> tuple[str, Any]:
    """The word that says what a node is, and what stands under it."""
    word = next(key for key in tree if key not in ("fields", "type"))
    return word, tree[word]


def arguments(tree: Any, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a tree whose root is a list (or tuple) or a dict."""
    value = decode(tree, leaves)
    if value is None:
        return (), {}
    if isinstance(value, dict):
        return (), value
    return (tuple(value), {}) if isinstance(value, list | tuple) else ((value,), {})


def pick(tree: Any, value: Any, leaves: list[Any], where: str = "output") -> None:
    """Append the leaves of a result that must have the nesting of `tree`.

    Raises:
        Failure: wrong-shape, naming the place where the nesting differs; wrong-values for another constant.
    """
    word, content = head(tree)
    if word == "tensor":
        leaves.append(value)
    elif word == "number":
        kind = tree["type"]
        if type(value) is not NUMBER_TYPES[kind]:
            raise Failure("wrong-dtype", f"{where} is a {type(value).__name__}, should be a Python {kind}")
        leaves.append(torch.tensor(value, dtype=getattr(torch, NUMBER_DTYPE[kind])))
    elif word == "object":
        for name, item in tree["fields"].items():
            if not hasattr(value, name):
                raise Failure(
                    "wrong-shape", f"{where} ({type(value).__name__}) has no field {name!r} as {content} has"
                )
            pick(item, getattr(value, name), leaves, f"{where}.{name}")
    elif word in CONTAINERS:
        _pick_container(word, content, value, leaves, where)
    elif not _same(decode(tree, []), value):
        raise Failure("wrong-values", f"{where} is {_short(value)}, should be {_short(decode(tree, []))}")


def _pick_container(word: str, content: Any, value: Any, leaves: list[Any], where: str) -> None:
    if not isinstance(value, CONTAINERS[word]):
        raise Failure(
            "wrong-shape", f"{where} is a {type(value).__name__}, should be a {word} of {len(content)}"
        )
    if word == "dict":
        if set(value) != set(content):
            raise Failure(
                "wrong-shape", f"{where} has the keys {sorted(map(str, value))}, should be {sorted(content)}"
            )
        for key, item in content.items():
            pick(item, value[key], leaves, f"{where}[{key!r}]")
        return
    if len(value) != len(content):
        raise Failure("wrong-shape", f"{where} is a {word} of {len(value)}, should be of {len(content)}")
    for index, item in enumerate(content):
        pick(item, value[index], leaves, f"{where}[{index}]")


def _same(due: Any, value: Any) -> bool:
    return type(due) is type(value) and bool(due == value)


def _short(value: Any) -> str:
    text = (
        repr(value) if isinstance(value, str | int | float | bool | complex | None) else type(value).__name__
    )
    return text[:80]
