"""Find a module's file, and the module that really defines a name, without importing anything."""

from __future__ import annotations

import ast
import sys
import sysconfig
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from kernelskill.errors import TaskError
from kernelskill.tasks.text import Definition, names_of, parsed, statements

_INSTALLED = frozenset({"stdlib", "platstdlib", "purelib", "platlib"})
DEEPEST = 8
"""Re-exports followed until the defining module is found."""


def find(module: str) -> tuple[Path, Path]:
    """The folder that belongs on sys.path for a module, and its file.

    `importlib.util.find_spec` would import the packages above it, which is the user's code.

    Raises:
        TaskError: there is no such module, or it is not Python text.
    """
    places = [str(Path.cwd()), *(place for place in sys.path if place)]
    spec: ModuleSpec | None = None
    names = module.split(".")
    for depth, name in enumerate(names):
        spec = PathFinder.find_spec(name, places) if name.isidentifier() else None
        if spec is None:
            raise TaskError(f"module {module} cannot be found; is it installed, or in this folder?")
        places = list(spec.submodule_search_locations or [])
        if depth < len(names) - 1 and not places:
            raise TaskError(
                f"module {module} cannot be found: {'.'.join(names[: depth + 1])} is not a package"
            )
    assert spec is not None
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise TaskError(f"module {module} is not a Python file; name the module that defines the class")
    file = Path(spec.origin)
    return file.absolute().parents[module.count(".") + (file.name == "__init__.py")], file


def home_of(module: str, file: Path, root: Path, entry: str) -> tuple[str, Path]:
    """Follow `from .x import entry` to the module that defines it; the module itself where that leads nowhere."""
    seen: set[str] = set()
    queue = [(module, file)]
    while queue and len(seen) < DEEPEST:
        name, path = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        try:
            body = statements(parsed(path.read_text(encoding="utf-8-sig"), name))
        except (OSError, UnicodeDecodeError, TaskError):
            continue
        if any(isinstance(node, Definition | ast.Assign) and entry in names_of(node) for node in body):
            return name, path
        for node in body:
            imports = isinstance(node, ast.ImportFrom) and (
                entry in names_of(node) or node.names[0].name == "*"
            )
            if not imports or _renamed(node, entry):
                continue
            assert isinstance(node, ast.ImportFrom)
            source = _absolute(node, name, path.name == "__init__.py")
            found = _file_of(source, root)
            if found is not None:
                queue.append((source, found))
    return module, file


def is_installed(path: Path) -> bool:
    """Whether a file belongs to the Python installation, where every worker finds it by itself."""
    places = [place for key, place in sysconfig.get_paths().items() if key in _INSTALLED]
    return any(path.is_relative_to(Path(place).resolve()) for place in places)


def _renamed(node: ast.stmt, entry: str) -> bool:
    return isinstance(node, ast.ImportFrom) and any(a.asname == entry and a.name != entry for a in node.names)


def _absolute(node: ast.ImportFrom, name: str, is_package: bool) -> str:
    if node.level == 0:
        return node.module or ""
    parts = name.split(".")
    above = parts[: len(parts) - node.level + is_package]
    return ".".join([*above, *([node.module] if node.module else [])])


def _file_of(module: str, root: Path) -> Path | None:
    path = root.joinpath(*module.split("."))
    candidates = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((item for item in candidates if item.is_file()), None)
