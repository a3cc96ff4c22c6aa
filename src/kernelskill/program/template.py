"""The seam of kernels that are not a loop nest over one space: scans and pooling.

A template is a module `program.templates.<name>` with

    def function(kernel: Kernel, threads: str) -> CppFunction

which prints the whole C++ function. `prologue` and `epilogue` regions are plain maps of one value: `inline_map` prints
them as a lambda on registers, to be applied to each value read or written.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.program.program import Kernel
from kernelskill.program.region import Region


@dataclass(frozen=True)
class CppFunction:
    """A printed kernel."""

    body: str
    """Text between the braces of the function."""
    functions: frozenset[str] = frozenset()
    """Names of `vector_math` that it calls."""
    dtypes: frozenset[str] = frozenset(["float32"])
    """Storage types that it reads and writes."""
    inputs: tuple[tuple[str, str], ...] = field(default=())
    """(name, dtype) of the pointers that are read, in order of the node's arguments."""
    outputs: tuple[tuple[str, str], ...] = field(default=())
    """(name, dtype) of the pointers that are written, in order of the node's results."""


def print_template(kernel: Kernel) -> CppFunction:
    """Print a kernel by its template.

    Raises:
        ProgramError: no template of that name.
    """
    body = kernel.body
    if isinstance(body, Region):
        raise ProgramError(f"kernel {kernel.name} is a loop nest, not a template")
    try:
        module = importlib.import_module(f"kernelskill.program.templates.{body.name}")
    except ModuleNotFoundError as error:
        raise ProgramError(f"kernel {kernel.name}: no template {body.name!r}") from error
    printed: CppFunction = module.function(kernel)
    return printed


def inline_map(region: Region, name: str) -> tuple[str, frozenset[str]]:
    """A plain map of one value as a lambda `name(F value) -> F`.

    The region's only load gives the value; its only store takes the result.
    """
    stage = region.stages[0]
    lines = [f"auto {name} = [](F value) -> F {{"]
    names: dict[str, str] = {}
    for op in stage.ops:
        if op.fn == "load":
            names[op.name] = "value"
            continue
        args = tuple(names.get(item, item) if isinstance(item, str) else item for item in op.args)
        kind = "auto" if op.fn in scalar.MASKS else "F"
        lines.append(f"  {kind} {op.name} = {scalar.on_vectors(op.fn, args)};")
    stored = stage.stores[0].value
    lines.append(f"  return {names.get(stored, stored)};")
    lines.append("};")
    return "\n".join(lines), functions_of(region)


def functions_of(region: Region) -> frozenset[str]:
    """Vector functions that a region's operations and folds call."""
    used = {op.fn for stage in region.stages for op in stage.ops}
    folds = {item.fold for stage in region.stages for item in stage.reductions}
    for fold, functions in {
        "max": {"max"},
        "min": {"min"},
        "any": {"max"},
        "all": {"min"},
        "softmax": {"max", "exp"},
    }.items():
        if fold in folds:
            used |= functions
    return frozenset(used & scalar.FUNCTIONS)
