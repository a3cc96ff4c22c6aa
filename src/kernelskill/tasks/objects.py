"""Python objects as tasks: pickled by value for the reference worker, their inputs drawn anew by fitted laws."""

from __future__ import annotations

import inspect
import pickletools
import sys
from pathlib import Path
from typing import Any

from kernelskill.errors import TaskError
from kernelskill.records import InputLaw, Json, Reference
from kernelskill.tasks import modules
from kernelskill.tasks.laws import fitted

PICKLE = "reference.pkl"


def from_object(
    target: object, inputs: object, init: object, storage: Path | None
) -> tuple[Reference, str, str]:
    """The reference of a module, class or function; its pickle goes into `storage`.

    Raises:
        TaskError: it cannot be pickled, or no inputs are given.
    """
    import cloudpickle
    from torch import nn

    is_module = isinstance(target, nn.Module) or (isinstance(target, type) and issubclass(target, nn.Module))
    if not is_module and not callable(target):
        raise TaskError(f"a {type(target).__name__} is neither a module, a class nor a function")
    if inputs is None:
        raise TaskError("inputs= is missing: give example arguments, or a callable that gives fresh ones")
    if storage is None:
        raise TaskError("a Python object needs storage= (a folder that its pickle is kept in)")
    content: dict[str, Any] = {"object": target, "init": init}
    laws: tuple[InputLaw, ...] = ()
    tree: Json = None
    if callable(inputs):
        content["inputs"] = inputs
    else:
        laws, tree, content["fixed"] = fitted(_arguments(target, inputs))
        if not laws:
            raise TaskError("inputs= holds no tensor: there is nothing to draw anew")
    try:
        pickled = cloudpickle.dumps(content)
    except Exception as error:  # anything may refuse to be pickled, in its own words
        raise TaskError(f"the task cannot be pickled for its worker: {error}") from error
    path = storage / PICKLE
    path.write_bytes(pickled)
    cls = target if isinstance(target, type) or not is_module else type(target)
    name = getattr(cls, "__name__", type(target).__name__)
    reference = Reference(
        loader="pickle",
        kind="module" if is_module else "function",
        entry=name,
        source=_source(cls),
        path=str(path.resolve()),
        search_path=_folders(pickled),
        laws=laws,
        inputs_tree=tree,
    )
    return reference, f"{getattr(cls, '__module__', '')}.{name}", name


def _arguments(target: Any, inputs: object) -> Json:
    """A list of positional or a dict of keyword arguments."""
    from torch import Tensor, nn

    if isinstance(inputs, Tensor):
        return [inputs]
    if isinstance(inputs, dict):
        return inputs
    if not isinstance(inputs, list | tuple):
        raise TaskError(f"inputs= is a {type(inputs).__name__}; give a tensor, a list, a dict or a callable")
    pair = len(inputs) == 2 and isinstance(inputs[0], list | tuple) and isinstance(inputs[1], dict)
    if not pair:
        return list(inputs)
    is_class = isinstance(target, type) and issubclass(target, nn.Module)
    function = target.forward if isinstance(target, nn.Module) or is_class else target
    own = (None,) if is_class else ()
    try:
        bound = inspect.signature(function).bind(*own, *inputs[0], **inputs[1]).arguments
    except (TypeError, ValueError):
        return list(inputs)
    return list(inputs[0]) if not inputs[1] else dict(list(bound.items())[len(own) :])


def _source(target: object) -> str:
    """Text of the module (or of the class alone, from a notebook) that defines the target."""
    try:
        module = inspect.getmodule(target)
        if module is not None and getattr(module, "__file__", None):
            return inspect.getsource(module)
        return f"import torch\nfrom torch import nn\n\n\n{inspect.getsource(target)}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _folders(pickled: bytes) -> tuple[str, ...]:
    """Where the worker finds the modules that a pickle names, without those that are installed for everyone."""
    folders: dict[str, None] = {}
    for _, word, _ in pickletools.genops(pickled):
        if not isinstance(word, str) or "\n" in word:
            continue
        for name in dict.fromkeys((word, word.split(" ", 1)[0])):
            module = sys.modules.get(name)
            file = getattr(module, "__file__", None)
            if file is None or name == "__main__":
                continue
            path = Path(file).resolve()
            if modules.is_installed(path):
                continue
            depth = name.count(".") + (path.name == "__init__.py")
            folders[str(path.parents[min(depth, len(path.parents) - 1)])] = None
    return tuple(folders)
