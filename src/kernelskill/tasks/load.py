"""A path, "file.py:Name", "package.module:Name" or a Python object -> `Task`."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from kernelskill.errors import TaskError
from kernelskill.records import Precision, Reference, Task, Weights
from kernelskill.tasks import modules, objects, text

NAME_LENGTH = 60


def load_task(
    target: object,
    *,
    inputs: object = None,
    init: object = None,
    precision: Precision = Precision.MATCH,
    weights: Weights = "live",
    storage: Path | None = None,
) -> Task:
    """Read a task.

    Args:
        target: path of a KernelBench-style file, "file.py:Name", "package.module:Name", an nn.Module, a class or a
            function.
        inputs: for text targets a Python expression; for objects example arguments (a tensor, list, dict, or
            [arguments, keyword arguments]), by which a law is fitted to each tensor, or a callable giving fresh ones.
        init: for text targets a Python expression; for classes constructor arguments.
        precision: accuracy owed.
        weights: whether parameters may change between calls.
        storage: folder that a pickled object is kept in (objects only).

    Raises:
        TaskError: it cannot be read as a task; one clear line.
    """
    if isinstance(target, str | Path):
        reference, origin, name = _from_text(str(target), _expression(inputs), _expression(init))
    else:
        reference, origin, name = objects.from_object(target, inputs, init, storage)
    meaning = reference.model_dump_json(exclude={"path", "search_path"}) + precision
    if weights == "frozen":
        meaning += weights
    if reference.path:
        meaning += hashlib.sha256(Path(reference.path).read_bytes()).hexdigest()
    return Task(
        name=slug(name),
        hash=hashlib.sha256(meaning.encode()).hexdigest(),
        reference=reference,
        origin=origin,
        precision=precision,
        weights=weights,
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
        if not entry.isidentifier():
            raise TaskError(f"{target}: {entry!r} is not the name of a class or function")
        if not (head.endswith(".py") or "/" in head):
            return _from_module(head, entry, inputs, init)
        path = Path(head)
        if not _is_file(head):
            raise TaskError(f"file {head} does not exist")
    else:
        raise TaskError(_not_found(target))
    source = _read(path)
    folder = path.resolve().parent
    reference = text.reference_of(source, str(path), entry, inputs, init, (folder,))
    reference = reference.model_copy(update={"search_path": (str(folder),)})
    name = path.stem if not entry else f"{path.stem}-{entry}"
    return reference, target, name


def _from_module(module: str, entry: str, inputs: str, init: str) -> tuple[Reference, str, str]:
    root, file = modules.find(module)
    home, file = modules.home_of(module, file, root, entry)
    found = text.reference_of(_read(file), home, entry, inputs, init, (root,))
    places = () if modules.is_installed(file.resolve()) else (str(root),)
    reference = found.model_copy(update={"loader": "import", "module": home, "search_path": places})
    return reference, f"{module}:{entry}", f"{module.rsplit('.', 1)[-1]}-{entry}"


def _not_found(target: str) -> str:
    if target.endswith(".py"):
        return f"file {target[:200]} does not exist"
    if _is_folder(target):
        return f"{target} is a folder; give one of its files"
    return (
        f"{target[:200]} is neither a file nor PACKAGE.MODULE:NAME; give a KernelBench-style file, FILE.py:NAME, "
        "or PACKAGE.MODULE:NAME"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not a text file: {error}") from error
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}") from error


def _is_file(target: str) -> bool:
    try:
        return Path(target).is_file()
    except (OSError, ValueError):  # a name too long, or with a null byte
        return False


def _is_folder(target: str) -> bool:
    try:
        return Path(target).is_dir()
    except (OSError, ValueError):
        return False


def _expression(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TaskError("for a file or module, inputs and init are Python expressions given as text")
    return value.strip()
