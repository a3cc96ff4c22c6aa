"""Calls whose results are looked at only after later calls have returned, with fresh memory full of rubbish.

What a careless or cheating kernel gets away with when each result is copied at once shows here: results in a buffer
that the next call overwrites, results in the caller's own memory, results that rest on what memory happened to hold.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import torch

from .failures import describe
from .protocol import Failure
from .runner import make_store
from .session import Session
from .tree import pick

M_PERTURB = -6
"""mallopt: fill every block that is handed out with the complement of this byte (glibc)."""
PATTERNS = (0x01, 0x5A)
"""Fresh memory holds their complements: about -1.7e38 and -1.1e16 as float32, one after the other."""
LEAST_CALLS = 8
"""Calls that are made before the first result is looked at: a ring of fewer buffers shows."""
GPU_BYTES = 1 << 28
"""Most device memory that is soiled before the calls."""
_perturb = getattr(ctypes.CDLL(None), "mallopt", None)
_data = torch.Tensor.data_ptr


def handle_held(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Call forward on bound calls in the given `order`; store results once all calls, and a few more, have returned.

    Every other time the rubbish in fresh memory is of another pattern.

    Reply: as `run`, with times of zero; `flags` names the outputs that lie in memory of an input.

    Raises:
        Failure: forward raised, or what it returned is not what it must be.
    """
    times = session.extra["held"] = session.extra.get("held", 0) + 1
    call, store = session.callable(), make_store(session.outputs_tree, session.outputs_spec, session.device)
    items = [session.bound[index] for index in message["order"]]
    shared: set[int] = set()
    try:
        session.slots.pull(session.bound_slots)
        with torch.no_grad():
            with _soiled(session, PATTERNS[times % len(PATTERNS)]):
                # The second input goes on coming, so that whatever buffer the first result lies in changes.
                results = [call(*item.args, **item.kwargs) for item in items]
                further = [items[-1 if len(items) == 1 else 1]] * (LEAST_CALLS - len(items))
                kept = [call(*item.args, **item.kwargs) for item in further]
                session.settle()
            for result, item in zip(results, items, strict=True):
                store(result, item.outputs)
                shared |= _lent(session, result, item.inputs)
        session.settle()
        session.slots.push(session.bound_slots)
        del kept
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        told = describe(error, session)
        raise Failure(told["status"], told["detail"], told["hint"]) from None
    return {
        "times_us": [0.0] * len(items),
        "flags": [f"output[{place}] lies in memory of an input" for place in sorted(shared)],
    }


@contextlib.contextmanager
def _soiled(session: Session, pattern: int) -> Iterator[None]:
    """Memory that is allocated inside holds a pattern; on a GPU, what its allocator has to hand out at the start."""
    if session.device == "cuda":
        wanted = sum(
            view.numel() * view.element_size() for item in session.bound[:2] for view in item.outputs
        )
        rubbish = torch.empty(min(max(wanted, 1), GPU_BYTES), dtype=torch.uint8, device="cuda")
        rubbish.fill_(0xFF ^ pattern)
        session.settle()
        del rubbish
        yield
        return
    if _perturb is None:
        yield
        return
    _perturb(M_PERTURB, pattern)
    try:
        yield
    finally:
        _perturb(M_PERTURB, 0)


def _lent(session: Session, result: Any, inputs: list[Any]) -> set[int]:
    """Numbers of the output leaves whose storage is an input's."""
    leaves: list[Any] = []
    pick(session.outputs_tree, result, leaves)
    spans = [_span(item) for item in inputs if isinstance(item, torch.Tensor)]
    found = set()
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            low = _data(leaf)
            if any(start <= low < end for start, end in spans):
                found.add(place)
    return found


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses of a tensor's elements; strides of arguments are never negative."""
    start = _data(tensor)
    if not tensor.numel():
        return start, start
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()
