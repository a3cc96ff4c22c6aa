"""A module's call captured into a CUDA graph. Printed into candidates as it stands; standard library and torch only."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map


class Replay:
    """Answers calls of a module by replaying one captured call as a CUDA graph.

    Inputs are copied in and results copied out: a call reads the caller's tensors and gives results of its own.
    Parameters and buffers are used where they lie, so changes in place are followed; one that was replaced or moved
    leads to a new capture. The first call of each kind runs as it is and is watched: one that draws random numbers,
    keeps state in Python or cannot be captured goes on running as it is. So do calls under autograd or autocast.
    """

    MOST = 16
    """Watched calls of one module: each capture keeps memory, and a caller with ever new shapes gains nothing."""
    TRIES = 2
    """Watched calls of a kind; the first may set up what later ones only read."""

    def __init__(self) -> None:
        self._captures: dict[Any, _Capture] = {}
        self._tries: dict[Any, int] = {}
        self._watched = 0
        self._turn = threading.RLock()

    def __reduce__(self) -> Any:
        """A copy of a module captures its own calls."""
        return Replay, ()

    def __call__(self, module: nn.Module, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `call(*args, **kwargs)` gives; `call` is a method of the module."""
        tensors: list[torch.Tensor] = []
        kind = None
        if not (torch.is_grad_enabled() or torch.is_autocast_enabled("cuda")):
            kind = _kind((args, kwargs), tensors)
        if kind is None or not tensors or torch.cuda.is_current_stream_capturing():
            return call(*args, **kwargs)
        with self._turn:
            capture = self._captures.get(kind)
            if capture is not None and capture.holds():
                return capture.replay(tensors)
            if self._tries.get(kind, 0) < self.TRIES and self._watched < self.MOST:
                return self._watch(kind, module, call, args, kwargs)
        return call(*args, **kwargs)

    def _watch(self, kind: Any, module: nn.Module, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a call as it is, and capture it for those to come if nothing speaks against it."""
        self._captures.pop(kind, None)
        self._watched += 1
        self._tries[kind] = self._tries.get(kind, 0) + 1
        watch = _Watch(module)
        result = call(*args, **kwargs)
        if watch.allows(result):
            self._tries[kind] = 0  # a module that is changed later may be captured anew
            try:
                self._captures[kind] = _Capture(module, call, args, kwargs)
            except RuntimeError:  # it waits for the device, or does something else that a capture forbids
                self._tries[kind] = self.TRIES
        return result


def _kind(value: Any, tensors: list[torch.Tensor]) -> Any:
    """What calls of one graph have in common, None where there is no graph of it; collects the tensors."""
    if isinstance(value, torch.Tensor):
        strides, here = value.stride(), value.is_cuda and value.get_device() == torch.cuda.current_device()
        if type(value) not in (torch.Tensor, nn.Parameter) or not here or not value.numel() or 0 in strides:
            return None  # nothing can be copied into an expanded tensor
        tensors.append(value)
        return value.shape, strides, value.dtype, value.device
    if isinstance(value, (list, tuple)):
        parts = [_kind(item, tensors) for item in value]
        return None if None in parts else (type(value), *parts)
    if isinstance(value, dict):
        known = _kind(list(value.values()), tensors)
        return known and (tuple(value), known)
    return (type(value), value) if _is_plain(value) else None


class _Watch:
    """Whether a call does more than give results and write to the module's buffers."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._before = self._now()

    def allows(self, result: Any) -> bool:
        """True: it drew no random numbers, set no attribute, parameter or buffer, and gave tensors or plain values."""
        (attributes, versions, states), now = self._before, self._now()
        same = len(attributes) == len(now[0]) and all(map(_is_same, attributes, now[0]))
        drawn = not all(map(torch.equal, states, now[2]))
        known = all(isinstance(leaf, torch.Tensor) or _is_plain(leaf) for leaf in tree_leaves(result))
        return same and versions == now[1] and not drawn and known

    def _now(self) -> tuple[list[Any], list[int], list[torch.Tensor]]:
        attributes = [
            leaf
            for part in self._module.modules()
            for name, value in vars(part).items()
            if not isinstance(value, Replay)
            for leaf in (name, *tree_leaves(value))
        ]
        parameters = self._module.parameters()
        versions = [0 if parameter.is_inference() else parameter._version for parameter in parameters]
        return attributes, versions, [torch.get_rng_state(), torch.cuda.get_rng_state()]


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _is_same(old: Any, new: Any) -> bool:
    return old is new or (type(old) is type(new) and _is_plain(old) and bool(old == new))


class _Capture:
    """One captured call."""

    def __init__(self, module: nn.Module, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Raises RuntimeError where the call cannot be captured."""
        self._state = _State(module)
        self._stream = torch.cuda.current_stream()
        self._graph = torch.cuda.CUDAGraph()
        # Tensors of inference mode could not be copied into outside of it.
        with torch.inference_mode(False), torch.no_grad():
            args, kwargs = tree_map(_laid_out_like, (args, kwargs))
            self._inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            aside = torch.cuda.Stream()
            aside.wait_stream(self._stream)
            with torch.cuda.stream(aside):
                self._warm_up(call, args, kwargs)
            self._stream.wait_stream(aside)
            self._result = self._record(aside, call, args, kwargs)

    def _warm_up(self, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Let libraries settle their plans and workspaces on the capture's stream; what is written is put back."""
        kept = [(tensor, tensor.clone()) for tensor in self._state.written]
        try:
            call(*args, **kwargs)
            _without_waiting(call, args, kwargs)
        finally:
            for tensor, before in kept:
                tensor.copy_(before)

    def _record(self, stream: torch.cuda.Stream, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The call's result, which each replay writes again."""
        how: dict[str, Any] = {"stream": stream, "capture_error_mode": "thread_local"}
        try:
            with torch.cuda.graph(self._graph, **how):
                return call(*args, **kwargs)
        except RuntimeError:
            # Only a capture that ends well tells the generator of random numbers that it is over.
            with torch.cuda.graph(torch.cuda.CUDAGraph(), **how):
                torch.zeros(1, device="cuda")
            raise

    def holds(self) -> bool:
        """Whether the module still keeps everything where the graph has it."""
        return self._state.holds()

    def replay(self, tensors: list[torch.Tensor]) -> Any:
        """The result for other tensors of the same kind."""
        stream = torch.cuda.current_stream()
        if stream != self._stream:
            stream.wait_stream(self._stream)
            self._stream = stream
        for own, given in zip(self._inputs, tensors, strict=True):
            own.copy_(given)
        self._graph.replay()
        if type(self._result) is torch.Tensor:
            return self._result.clone()
        return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, self._result)


_MODE = attrgetter("training")


class _State:
    """What a call of a module reads besides its arguments: which tensors, where they lie, and the parts' modes."""

    def __init__(self, module: nn.Module) -> None:
        self._parts = list(module.modules())
        owners = [item for part in self._parts for item in (part._parameters, part._buffers, part._modules)]
        self._owners: list[Any] = [owner for owner in owners if owner]
        self._plain = [
            (vars(part), name)
            for part in self._parts
            for name, value in vars(part).items()
            if isinstance(value, torch.Tensor)
        ]
        self._held, self._modes = self._now()
        self._tensors = [item for item in self._held if isinstance(item, torch.Tensor)]
        self._addresses = list(map(torch.Tensor.data_ptr, self._tensors))
        # Aliases keep the memory, so that no other tensor can come to lie at one of the addresses.
        self._memory = [tensor.detach() for tensor in self._tensors]

    @property
    def written(self) -> list[torch.Tensor]:
        """Tensors that a call may write to."""
        return [item for item in self._tensors if not isinstance(item, nn.Parameter)]

    def holds(self) -> bool:
        """Whether all of it is as it was."""
        held, modes = self._now()
        if len(held) != len(self._held) or not all(map(is_, held, self._held)) or modes != self._modes:
            return False
        return list(map(torch.Tensor.data_ptr, self._tensors)) == self._addresses

    def _now(self) -> tuple[list[Any], list[bool]]:
        # A deep network has hundreds of these at every call, so the loops are the interpreter's own.
        held: list[Any] = list(chain.from_iterable(map(dict.values, self._owners)))
        if self._plain:
            held += [owner.get(name) for owner, name in self._plain]
        return held, list(map(_MODE, self._parts))


def _without_waiting(call: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Call it; RuntimeError where the host would wait for the device, which is better known before a capture."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode does not detect everything
        torch.cuda.set_sync_debug_mode("error")
    try:
        call(*args, **kwargs)
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def _laid_out_like(leaf: Any) -> Any:
    """A copy with the same strides; what is no tensor stays what it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    own = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
    return own.copy_(leaf)
