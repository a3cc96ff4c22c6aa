"""Bring the reference to life: from a module's text, by import, or from a pickle."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import torch

from . import settings
from .candidate import settled, state_names
from .inputs import draw
from .protocol import Failure
from .refusal import refused
from .session import Session
from .tree import arguments

MODULE = "reference_source"


def handle_load_reference(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Load the reference as one arm; others that were loaded before stay, each with a model of its own.

    Message: `reference` (JSON of `records.Reference`), `arm` ("eager", "compile", "compile-frozen", "none"; on a GPU
    also "graph" and the compiling ones with "+graph"), optional `precision` (value of `records.Precision`, for a GPU's
    settings).

    Raises:
        Failure: it cannot be loaded or built; the detail's first line says why.
    """
    reference = message["reference"]
    settings.prefer(message.get("precision", ""), session.device)
    seed()
    try:
        # A pickle is read anew, or arms would share its object.
        if session.extra.get("reference") != reference or reference["loader"] == "pickle":
            session.extra["names"] = _names(session, reference)
        session.extra["reference"] = reference
        seed()  # what loading has drawn must not tell a later arm from the first
        session.model = settled(session, lambda: _built(reference, session.extra["names"]))
        if session.arms and any(session.model is model for model, _ in session.arms.values()):
            session.model = copy.deepcopy(session.model)
        _materialize(session)
    except BaseException as error:  # noqa: BLE001  a reference may raise anything while it is loaded
        raise refused(error, session, "loading the reference") from None
    arm = message.get("arm") or ""
    session.call = torch.compile(session.model) if arm.startswith("compile") else None
    if arm.startswith("compile-frozen"):
        session.call = settings.folding(session.model)
    if arm.endswith("graph"):
        from .graphs import Graphed

        session.call = Graphed(session.callable())
    session.arms[arm] = session.model, session.call
    return {"names": state_names(session.model)}


def seed() -> None:
    """Every arm's parameters and buffers are drawn from the same numbers."""
    torch.manual_seed(0)
    random.seed(0)


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


def _names(session: Session, reference: dict[str, Any]) -> dict[str, Any]:
    sys.path[:0] = list(reference["search_path"])
    if reference["loader"] == "import":
        return vars(importlib.import_module(reference["module"]))
    if reference["loader"] == "pickle":
        with Path(reference["path"]).open("rb") as file:
            return dict(pickle.load(file))
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
    elif reference["entry"] in names:
        target = names[reference["entry"]]
    else:
        raise Failure("build-error", f"the reference defines no {reference['entry']}")
    if isinstance(target, type):
        if inspect.isabstract(target):
            missing = ", ".join(sorted(getattr(target, "__abstractmethods__", ())))
            raise Failure("build-error", f"{target.__name__} is abstract: it lacks {missing}")
        args, kwargs = constructor_arguments(init_arguments(reference, names))
        target = target(*args, **kwargs)
    if isinstance(target, torch.nn.Module) and type(target).forward is torch.nn.Module.forward:
        raise Failure("build-error", f"{type(target).__name__} defines no forward")
    if not callable(target):
        raise Failure(
            "build-error", f"{reference['entry']} is a {type(target).__name__}: it cannot be called"
        )
    return target


def _materialize(session: Session) -> None:
    """Lazy modules get their shapes from one forward, in every arm, before state is written by name."""
    if not isinstance(session.model, torch.nn.Module):
        return
    tensors = [*session.model.parameters(), *session.model.buffers()]
    if any(torch.nn.parameter.is_lazy(tensor) for tensor in tensors):
        leaves, tree = draw(session, 0)
        args, kwargs = arguments(tree, leaves)
        with torch.no_grad():
            session.model(*args, **kwargs)


def init_arguments(reference: dict[str, Any], names: dict[str, Any]) -> Any:
    """Constructor arguments as the task writes them; None where it gives none."""
    if reference["loader"] == "pickle":
        return names.get("init")
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
