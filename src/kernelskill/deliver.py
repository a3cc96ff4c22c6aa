"""The winner as a drop-in module: it shares the original's parameters and steps aside outside its guard."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from kernelskill.errors import RunError
from kernelskill.evaluation.worker.tree import decode
from kernelskill.program.cuda.replay import Replay
from kernelskill.records import Run, TensorSpec
from kernelskill.scratch import prefix

STOCK_MODES = {"compile": "default", "compile+graph": "reduce-overhead"}
"""Arm -> mode of torch.compile for a module in place."""


class Delivered(nn.Module):
    """Runs the winner on calls like those that were proven, and the original on all others.

    Attributes:
        fallbacks: calls that the original answered, counted by reason.
    """

    def __init__(
        self, original: nn.Module, winner: nn.Module, specs: tuple[TensorSpec, ...], device: str = "cpu"
    ) -> None:
        super().__init__()
        self.original = original
        # The winner holds the same parameters; registering it would list each of them twice.
        object.__setattr__(self, "_winner", winner)
        self.fallbacks: dict[str, int] = {}
        self._specs = specs
        self._device = device
        self._proven_mode = original.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original's forward."""
        reason = self._outside(args, kwargs)
        if not reason:
            winner: nn.Module = self.__dict__["_winner"]
            return winner(*args, **kwargs)
        if reason not in self.fallbacks:
            warnings.warn(f"outside what was proven ({reason}): the original runs", stacklevel=2)
        self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
        return self.original(*args, **kwargs)

    def _outside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if self.original.training != self._proven_mode:
            return f"train mode is {self.original.training}"
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if len(tensors) != len(self._specs):
            return f"{len(tensors)} tensors instead of {len(self._specs)}"
        if torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, *self.original.parameters())
        ):
            return "a gradient is needed"
        for index, (tensor, spec) in enumerate(zip(tensors, self._specs, strict=True)):
            if tensor.device.type != self._device:
                return f"input {index} is on {tensor.device}"
            if str(tensor.dtype) != f"torch.{spec.dtype}":
                return f"input {index} is {tensor.dtype}"
            if tuple(tensor.shape) != spec.shape:
                return f"input {index} has shape {tuple(tensor.shape)}"
            if tensor.stride() != spec.stride:
                return f"input {index} has strides {tensor.stride()}"
        return ""


class Replayed(nn.Module):
    """The original, its calls replayed as CUDA graphs where they can be."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original
        self._replay = Replay()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original's forward."""
        return self._replay(self.original, self.original, *args, **kwargs)


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)


def deliver(run: Run, source: str, original: object | None) -> nn.Module:
    """Build the answer of a finished run.

    Args:
        run: a finished run.
        source: text of its best.py.
        original: the module or function that was optimized; None (or a class) where its reference is to be built
            with the constructor arguments that the run recorded.

    Raises:
        RunError: the run has no workload, or its source defines no ModelNew.
    """
    if run.workload is None or run.result is None:
        raise RunError(f"run {run.id} has not ended; resume it with: kernelskill resume {run.id}")
    names = _load(source, run) if run.result.winner_id or not isinstance(original, nn.Module) else {}
    if not isinstance(original, nn.Module):
        original = _built(names, run, original)
    if not run.result.winner_id:
        if run.result.winner_arm == "graph":
            return Replayed(original)
        mode = STOCK_MODES.get(run.result.winner_arm)
        # A compiled module shares the original's parameters and leaves the original as it is.
        return cast(nn.Module, torch.compile(original, mode=mode)) if mode else original
    winner_class = names["ModelNew"]
    winner = winner_class.__new__(winner_class)
    nn.Module.__init__(winner)
    # Sharing the dictionaries (not copies of them) makes later parameter updates visible to both.
    winner.__dict__.update(original.__dict__)
    # It is the very object that the kernels were proven on.
    winner.__dict__["_as_proven"] = True
    return Delivered(original, winner, run.workload.inputs, run.target)


def _load(source: str, run: Run) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix=prefix("answer")))
    path = folder / "best.py"
    path.write_text(source, encoding="utf-8")
    name = f"kernelskill_best_{run.task.hash[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RunError(f"run {run.id}: best.py cannot be loaded from {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "ModelNew"):
        raise RunError(f"run {run.id}: best.py defines no ModelNew")
    return vars(module)


def _built(names: dict[str, Any], run: Run, original: object | None) -> nn.Module:
    """What the answer falls back to: the function, or a fresh instance of the reference's class."""
    reference = run.task.reference
    entry = original if callable(original) else names.get(reference.entry)
    if not isinstance(entry, type):
        if not callable(entry):
            raise RunError(f"run {run.id}: the reference {reference.entry!r} is not in best.py")
        return Called(entry)
    tree = run.workload.init_args if run.workload else None
    arguments = decode(tree, []) if tree else []
    built = entry(**arguments) if isinstance(arguments, dict) else entry(*arguments)
    if not isinstance(built, nn.Module):
        raise RunError(f"run {run.id}: {entry.__name__} is not a module")
    return built
