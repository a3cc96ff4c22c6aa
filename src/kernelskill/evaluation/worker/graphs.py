"""A call captured into a CUDA graph, as a stock arm: inputs are copied in and results handed out at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .protocol import Failure

WARM_UP = 3
"""Calls before the capture, in which libraries and compilers settle their plans."""


class Graphed:
    """A callable that replays one captured call.

    Parameters and buffers are read at every replay, so that changes in place count. Capture happens in the first call.

    Args:
        target: what is captured; must not wait for the device or look at values.
    """

    def __init__(self, target: Callable[..., Any]) -> None:
        self._target = target
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Any] = []
        self._result: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the arguments in, replay, and hand out the graph's own result (valid until the next call).

        Raises:
            Failure: the call cannot be captured.
        """
        leaves, form = tree_flatten((args, kwargs))
        if self._graph is None:
            self._capture(leaves, form)
        for own, given in zip(self._inputs, leaves, strict=True):
            if isinstance(own, torch.Tensor):
                own.copy_(given)
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def _capture(self, leaves: list[Any], form: Any) -> None:
        self._inputs = [_like(leaf) for leaf in leaves]
        args, kwargs = tree_unflatten(self._inputs, form)
        aside = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        try:
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(WARM_UP):
                    self._target(*args, **kwargs)
            torch.cuda.current_stream().wait_stream(aside)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                self._result = self._target(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever the model does that a capture forbids
            raise Failure("runtime-error", f"no CUDA graph: {type(error).__name__}: {error}") from None
        self._graph = graph


def _like(leaf: Any) -> Any:
    """A copy with the same strides; anything that is no tensor stays what it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    own = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
    if 0 in leaf.stride() and leaf.numel():
        return leaf.clone(memory_format=torch.contiguous_format)  # an expanded tensor cannot be copied into
    return own.copy_(leaf)
