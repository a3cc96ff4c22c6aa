"""Bring the reference to life: from a module's text, by import, or from a pickle."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import pickle
import random
import sys
from typing import Any

import torch

from .candidate import state_names
from .failures import describe
from .protocol import Failure
from .session import Session

MODULE = "reference_source"


def handle_load_reference(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Load the reference as one arm.

    Message: `reference` (JSON of `records.Reference`), `arm` ("eager", "compile", "none").

    Raises:
        Failure: it cannot be loaded or built; the detail is one clear line.
    """
    reference = message["reference"]
    torch.manual_seed(0)
    random.seed(0)
    try:
        names = _names(session, reference)
        session.model = _built(reference, names)
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001  a reference may raise anything while it is loaded
        raise _told(error, session) from None
    session.extra["reference"] = reference
    session.extra["names"] = names
    if message.get("arm") == "compile":
        session.call = torch.compile(session.model)
    return {"names": state_names(session.model)}


def wrapped(session: Session) -> torch.nn.Module:
    """The reference as a module; a plain function becomes the forward of one."""
    if isinstance(session.model, torch.nn.Module):
        return session.model
    return _Function(session.model)


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self._function(*args, **kwargs)


def evaluated(session: Session, entry: str, expression: str) -> Any:
    """What the named function gives, or the expression, with the module's names in scope."""
    names = session.extra["names"]
    if entry:
        return names[entry]()
    scope = {"torch": torch, **names, "__builtins__": builtins}
    value = eval(expression, scope)
    return value() if callable(value) and not isinstance(value, torch.Tensor) else value


def _names(session: Session, reference: dict[str, Any]) -> dict[str, Any]:
    sys.path[:0] = list(reference["search_path"])
    if reference["loader"] == "import":
        return vars(importlib.import_module(reference["module"]))
    if reference["loader"] == "pickle":
        with open(reference["path"], "rb") as file:  # noqa: PTH123  stdlib only, kept plain
            content = pickle.load(file)
        return dict(content)
    path = session.scratch / f"{MODULE}.py"
    path.write_text(reference["source"], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return vars(module)


def _built(reference: dict[str, Any], names: dict[str, Any]) -> Any:
    if reference["loader"] == "pickle":
        target = names["object"]
        if isinstance(target, type):
            args, kwargs = constructor_arguments(names.get("init"))
            return target(*args, **kwargs)
        return target
    entry = reference["entry"]
    if entry not in names:
        raise Failure("build-error", f"the reference defines no {entry}")
    target = names[entry]
    if reference["kind"] == "function" or not isinstance(target, type):
        return target
    args, kwargs = constructor_arguments(init_arguments(reference, names))
    return target(*args, **kwargs)


def init_arguments(reference: dict[str, Any], names: dict[str, Any]) -> Any:
    """Constructor arguments as the task writes them; None where it gives none."""
    if reference["init_expression"]:
        return eval(reference["init_expression"], {"torch": torch, **names})
    if reference["init_entry"] and callable(names.get(reference["init_entry"])):
        return names[reference["init_entry"]]()
    return None


def constructor_arguments(value: Any) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments from None, a list, a tuple, a dict, [[...], {...}] or one value."""
    if value is None:
        return [], {}
    if isinstance(value, dict):
        return [], value
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], dict):
            return list(value[0]), value[1]
        return list(value), {}
    return [value], {}


def _told(error: BaseException, session: Session) -> Failure:
    text = str(error)
    if "CUDA" in text or "NVIDIA" in text:
        return Failure("runtime-error", "the task needs cuda; this is the cpu target")
    if isinstance(error, ModuleNotFoundError):
        return Failure("build-error", f"missing dependency {error.name} (pip install {error.name})")
    told = describe(error, session)
    return Failure(told["status"], told["detail"], told["hint"])
