"""How Python reaches what a kernel reads: forward's arguments and the module's state."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kernelskill.errors import ProgramError
from kernelskill.records import Json, Workload


def bound_arguments(workload: Workload, parameters: list[str]) -> dict[str, Json]:
    """Parameter of forward -> the part of the inputs' tree that it is given; those left to their default are absent.

    Raises:
        ProgramError: the inputs do not fit the parameters.
    """
    tree = workload.inputs_tree
    if "dict" in tree:
        unknown = set(tree["dict"]) - set(parameters)
        if unknown:
            raise ProgramError(f"forward has no parameter {sorted(unknown)[0]!r}")
        return {name: tree["dict"][name] for name in parameters if name in tree["dict"]}
    items = tree.get("list", tree.get("tuple"))
    items = [tree] if items is None else items
    if len(items) > len(parameters):
        raise ProgramError(f"forward has {len(parameters)} parameters for {len(items)} inputs")
    return dict(zip(parameters, items, strict=False))


def tensor_paths(part: Json, path: str) -> Iterator[tuple[int, str]]:
    """(leaf, how it is reached) of each tensor in an argument."""
    if "tensor" in part:
        yield part["tensor"], path
    for kind in ("list", "tuple"):
        for index, item in enumerate(part.get(kind, ())):
            yield from tensor_paths(item, f"{path}[{index}]")
    for key, item in part.get("dict", {}).items():
        yield from tensor_paths(item, f"{path}[{key!r}]")


def attribute(path: str, indexed: bool = True) -> str:
    """`layers.0.weight` as Python reaches it from self.

    Args:
        path: qualified name.
        indexed: whether modules named by numbers sit in lists; else they are plain attributes.
    """
    text = "self"
    for part in path.split("."):
        if part.isdigit():
            text = f"{text}[{part}]" if indexed else f'getattr({text}, "{part}")'
        else:
            text += f".{part}"
    return text


def spelled(items: tuple[int, ...]) -> str:
    """A tuple of Python."""
    return f"({', '.join(map(str, items))}{',' if len(items) == 1 else ''})"


def folded(line: str, width: int = 110) -> list[str]:
    """A statement that ends in a call (or a declaration of parameters), over several lines where it is long."""
    opening = line.find("(")
    closing = line.rfind(")")
    if len(line) <= width or opening < 0 or closing < opening:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()))
    inside = textwrap.wrap(
        line[opening + 1 : closing], width - len(margin) - 4, break_long_words=False, break_on_hyphens=False
    )
    return [line[: opening + 1], *(f"{margin}    {part}" for part in inside), margin + line[closing:]]
