"""Bring a candidate's source to life."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from . import settings
from .failures import describe
from .protocol import Failure
from .session import Session
from .tree import arguments

MODULE = "candidate_source"
BUILD = re.compile(
    r"error building|compil|ninja|undefined symbol|cannot open shared object|\bg\+\+|\bgcc\b|\bld:", re.I
)


def handle_load_candidate(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Import `source` from a file of its own and build `entry(*init)`.

    Message: source, entry, init_tree (tree of constructor arguments, or None), threads.

    Raises:
        Failure: build-error if it cannot be imported or a kernel does not compile; runtime-error if the
            constructor raises.
    """
    threads = message.get("threads") or session.threads
    torch.set_num_threads(threads)
    settings.prefer(message.get("precision", ""), session.device)
    session.extra["settings"] = settings.snapshot()
    path = session.scratch / f"{MODULE}.py"
    path.write_text(message["source"], encoding="utf-8")
    session.candidate_files = (str(path),)
    session.module_name = MODULE
    module = _load(session)
    entry = getattr(module, message["entry"], None)
    if entry is None:
        raise Failure(
            "build-error", f"the source defines no {message['entry']}", "define the class that was asked for"
        )
    session.model = _construct(session, entry, message.get("init_tree"))
    return {"names": state_names(session.model)}


def settled(session: Session, build: Callable[[], Any]) -> Any:
    """What `build` gives, on the worker's device.

    On a GPU tensors are made there from the start; a constructor that cannot do with that is run once more on the CPU.
    """
    if session.device == "cpu":
        return build()
    try:
        with session.home():
            built = build()
    except (TypeError, RuntimeError) as error:
        if is_build_error(error):
            raise
        built = build()
    return built.to(session.device) if isinstance(built, torch.nn.Module) else built


def state_names(model: Any) -> dict[str, list[str]]:
    """Names of parameters and buffers, in order; empty for a function."""
    if not isinstance(model, torch.nn.Module):
        return {"parameters": [], "buffers": []}
    return {
        "parameters": [name for name, _ in model.named_parameters(remove_duplicate=False)],
        "buffers": [name for name, _ in model.named_buffers(remove_duplicate=False)],
    }


def is_build_error(error: BaseException) -> bool:
    """Whether an exception is about compiling or loading a kernel rather than about running it."""
    if isinstance(error, subprocess.CalledProcessError | SyntaxError | ImportError):
        return True
    if isinstance(error, getattr(torch, "AcceleratorError", ())):
        return False
    return isinstance(error, OSError | RuntimeError) and bool(BUILD.search(str(error)))


def _load(session: Session) -> Any:
    spec = importlib.util.spec_from_file_location(MODULE, session.candidate_files[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        raise _failure(error, session, "build-error") from None
    return module


def _construct(session: Session, entry: Any, init_tree: Any) -> Any:
    if not inspect.isclass(entry):
        if not callable(entry):
            raise Failure(
                "build-error", f"{MODULE}: the entry is a {type(entry).__name__}, not a class or function"
            )
        return entry
    args, kwargs = arguments(init_tree, [])
    try:
        return settled(session, lambda: entry(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        raise _failure(error, session, "build-error" if is_build_error(error) else "runtime-error") from None


def _failure(error: BaseException, session: Session, status: str) -> Failure:
    told = describe(error, session, status=status)
    return Failure(told["status"], told["detail"], told["hint"])
