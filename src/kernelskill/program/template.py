"""The seam of kernels that are not a loop nest over one space: scans and pooling.

A template is a module `program.templates.<name>` with

    def function(kernel: Kernel) -> CppFunction

which prints the whole C++ function around two plain maps of one value, `prologue` and `epilogue`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel
from kernelskill.program.region import Region


@dataclass(frozen=True)
class CppFunction:
    """A printed kernel."""

    body: str
    """Text between the braces of the function."""
    inputs: tuple[tuple[str, str], ...]
    """(name, dtype) of the pointers that are read, in order of the node's arguments."""
    outputs: tuple[tuple[str, str], ...]
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
