"""Python objects as tasks: pickled by value for the reference worker, their inputs drawn anew by fitted laws."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from kernelskill.errors import TaskError
from kernelskill.records import Json, Reference
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

    if inputs is None:
        raise TaskError("inputs= is missing: give example arguments, or a callable that gives fresh ones")
    if storage is None:
        raise TaskError("a Python object needs storage= (a folder that its pickle is kept in)")
    is_module = isinstance(target, nn.Module) or (isinstance(target, type) and issubclass(target, nn.Module))
    if not is_module and not callable(target):
        raise TaskError(f"a {type(target).__name__} is neither a module, a class nor a function")
    laws, tree = ((), None) if callable(inputs) else fitted(_arguments(inputs))
    content: dict[str, Any] = {"object": target, "init": init}
    if callable(inputs):
        content["inputs"] = inputs
    path = storage / PICKLE
    try:
        path.write_bytes(cloudpickle.dumps(content))
    except Exception as error:
        raise TaskError(f"the task cannot be pickled for its worker: {error}") from error
    cls = target if isinstance(target, type) or not is_module else type(target)
    name = getattr(cls, "__name__", type(target).__name__)
    reference = Reference(
        loader="pickle",
        kind="module" if is_module else "function",
        entry=name,
        source=_source(cls),
        path=str(path),
        search_path=_folders(cls),
        laws=laws,
        inputs_tree=tree,
    )
    return reference, f"{getattr(cls, '__module__', '')}.{name}", name


def _arguments(inputs: object) -> Json:
    from torch import Tensor

    if isinstance(inputs, Tensor):
        return [inputs]
    if isinstance(inputs, dict):
        return inputs
    if isinstance(inputs, list | tuple):
        return list(inputs)
    raise TaskError(f"inputs= is a {type(inputs).__name__}; give a tensor, a list, a dict or a callable")


def _source(target: object) -> str:
    """Text of the module (or of the class alone, from a notebook) that defines the target."""
    try:
        module = inspect.getmodule(target)
        if module is not None and getattr(module, "__file__", None):
            return inspect.getsource(module)
        return f"import torch\nfrom torch import nn\n\n\n{inspect.getsource(target)}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _folders(target: object) -> tuple[str, ...]:
    """Where the worker finds the module that the pickle names."""
    module = inspect.getmodule(target)
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__":
        return ()
    parents = Path(file).resolve().parents
    depth = module.__name__.count(".") + file.endswith("__init__.py")
    return (str(parents[min(depth, len(parents) - 1)]),)
