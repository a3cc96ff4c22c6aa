"""A path, "file.py:Name", "package.module:Name" or a Python object -> `Task`."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from pathlib import Path

from kernelskill.errors import TaskError
from kernelskill.records import Precision, Reference, Task
from kernelskill.tasks import objects, text

NAME_LENGTH = 60


def load_task(
    target: object,
    *,
    inputs: object = None,
    init: object = None,
    precision: Precision = Precision.MATCH,
    storage: Path | None = None,
) -> Task:
    """Read a task.

    Args:
        target: path of a KernelBench-style file, "file.py:Name", "package.module:Name", an nn.Module, a class or a
            function.
        inputs: for text targets a Python expression; for objects example arguments (or a callable giving them).
        init: for text targets a Python expression; for classes constructor arguments.
        precision: accuracy owed.
        storage: folder that a pickled object is kept in (objects only).

    Raises:
        TaskError: it cannot be read as a task; one clear line.
    """
    if isinstance(target, str | Path):
        reference, origin, name = _from_text(str(target), _expression(inputs), _expression(init))
    else:
        reference, origin, name = objects.from_object(target, inputs, init, storage)
    meaning = reference.model_dump_json(exclude={"path", "search_path"}) + precision
    if reference.path:
        meaning += hashlib.sha256(Path(reference.path).read_bytes()).hexdigest()
    return Task(
        name=slug(name),
        hash=hashlib.sha256(meaning.encode()).hexdigest(),
        reference=reference,
        origin=origin,
        precision=precision,
    )


def slug(name: str) -> str:
    """A short name that is safe as part of a file name."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._") or "task"
    return cleaned[:NAME_LENGTH].rstrip("-._")


def _from_text(target: str, inputs: str, init: str) -> tuple[Reference, str, str]:
    if _is_file(target):
        path, entry = Path(target), ""
    elif ":" in target:
        head, entry = target.rsplit(":", 1)
        if not (head.endswith(".py") or "/" in head):
            return _from_module(head, entry, inputs, init)
        path = Path(head)
        if not _is_file(head):
            raise TaskError(f"file {head} does not exist")
    else:
        raise TaskError(
            f"{target} is neither a file nor PACKAGE.MODULE:NAME; give a KernelBench-style file, FILE.py:NAME, "
            "or PACKAGE.MODULE:NAME"
        )
    source = _read(path)
    reference = text.reference_of(source, str(path), entry, inputs, init)
    reference = reference.model_copy(update={"search_path": (str(path.resolve().parent),)})
    name = path.stem if not entry else f"{path.stem}-{entry}"
    return reference, target, name


def _from_module(module: str, entry: str, inputs: str, init: str) -> tuple[Reference, str, str]:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise TaskError(f"module {module} cannot be found: {error}") from error
    if spec is None or spec.origin is None:
        raise TaskError(f"module {module} cannot be found; is it installed, or in this folder?")
    source = _read(Path(spec.origin))
    found = text.reference_of(source, module, entry, inputs, init)
    root = Path(spec.origin).resolve().parents[module.count(".") + (spec.origin.endswith("__init__.py"))]
    reference = found.model_copy(update={"loader": "import", "module": module, "search_path": (str(root),)})
    return reference, f"{module}:{entry}", f"{module.rsplit('.', 1)[-1]}-{entry}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not a text file: {error}") from error
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}") from error


def _is_file(target: str) -> bool:
    try:
        return Path(target).is_file()
    except OSError:
        return False


def _expression(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TaskError("for a file or module, inputs and init are Python expressions given as text")
    return value
