"""Modules of this room as text for candidates: what they import, and what they define."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelskill.errors import ProgramError


@dataclass(frozen=True)
class Printed:
    """A module that is printed into candidates."""

    imports: tuple[str, ...]
    """One statement each."""
    body: str
    """All else, without the module's docstring."""
    names: frozenset[str]
    """What the body defines."""

    @property
    def standard(self) -> tuple[str, ...]:
        """Imports of the standard library."""
        return tuple(line for line in self.imports if "torch" not in line)

    @property
    def packages(self) -> tuple[str, ...]:
        """All other imports."""
        return tuple(line for line in self.imports if line not in self.standard)

    def require_no_clash(self, texts: tuple[str, ...]) -> None:
        """Make sure that other texts of the same file leave the names alone.

        Raises:
            ProgramError: one of them is defined there too.
        """
        others = {name for text in texts for name in _defined(ast.parse(text))}
        if clash := sorted(others & self.names):
            raise ProgramError(f"the reference defines {', '.join(clash)}, which the candidate needs itself")


@cache
def printed(module: str) -> Printed:
    """The text of `program.cuda.<module>`."""
    text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    head = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = [ast.unparse(node) for node in head if getattr(node, "module", "") != "__future__"]
    last = max(node.end_lineno or 0 for node in head)
    body = "\n".join(text.splitlines()[last:]).strip("\n")
    return Printed(tuple(imports), body, frozenset(_defined(tree)))


def _defined(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            walked = [item for target in node.targets for item in ast.walk(target)]
            names += [item.id for item in walked if isinstance(item, ast.Name)]
    return names
