"""What a worker remembers between two commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .slots import SlotTable

MUCH = 1 << 30
"""Bytes of device memory that are worth giving back."""


@dataclass
class BoundCall:
    """One call that is ready to run: arguments mapped from the input slots, places for the outputs."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: list[Any]
    """The tensor leaves among the arguments, in order; read-only unless the slot was given writable."""
    outputs: list[Any]
    """One tensor view over the output slot per output leaf: row-major, of the output's dtype and shape."""


@dataclass
class Session:
    """State of one worker. Handlers take it first: `handle_run(session, message) -> dict`."""

    role: str
    """"candidate", "reference" or "stock": for messages only, nothing is decided by it."""
    scratch: Path
    """Private writable folder; also the working directory, HOME and TMPDIR."""
    threads: int
    device: str = "cpu"
    """"cpu" or "cuda": where the model lives and inputs are drawn."""
    broken: bool = False
    """Whether nothing can be computed here any more; the worker ends after this answer."""
    trusted_cache: Path | None = None
    slots: SlotTable = field(default_factory=SlotTable)
    model: Any = None
    """nn.Module or function, set by `load_candidate` and `load_reference`; `run` calls it."""
    module_name: str = ""
    """Name in sys.modules of the source that `model` came from."""
    candidate_files: tuple[str, ...] = ()
    """Files whose frames may be shown in a traceback; empty shows all frames outside this folder."""
    call: Callable[..., Any] | None = None
    """What `run` calls; `model` if None (an arm may put its compiled callable here)."""
    arms: dict[str, tuple[Any, Callable[..., Any] | None]] = field(default_factory=dict)
    """Stock arms that share this worker: what `model` and `call` are for each."""
    bound: list[BoundCall] = field(default_factory=list)
    bound_slots: tuple[int, ...] = ()
    """Slots that those calls read and write."""
    outputs_tree: Any = None
    """Nesting that the outputs must have, as in `records.task`."""
    outputs_spec: list[dict[str, Any]] = field(default_factory=list)
    """TensorSpec JSON per output leaf."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Whatever one family of handlers keeps for itself, under its file's name."""

    def home(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which new tensors are made on the device."""
        return torch.device(self.device) if self.device != "cpu" else contextlib.nullcontext()

    def settle(self) -> None:
        """Wait until the device has done all that it was asked."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def trim(self) -> None:
        """Give device memory that is only kept for later back, where it is much; not for arms that are timed."""
        if self.device == "cuda" and torch.cuda.memory_reserved() > MUCH:
            torch.cuda.empty_cache()

    def turn_to(self, arm: str) -> None:
        """Have an arm that is loaded here be the one that runs; "": the one that is."""
        if arm:
            self.model, self.call = self.arms[arm]

    def callable(self) -> Callable[..., Any]:
        """What `run` calls."""
        target = self.call if self.call is not None else self.model
        if target is None:
            raise RuntimeError("nothing is loaded")
        return target
