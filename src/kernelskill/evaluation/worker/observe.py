"""Which operators a call dispatches, and how long they take. Advisory: it labels, it never ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from types import FrameType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .failures import describe
from .native import own_code
from .protocol import Failure
from .session import Session

GLUE = frozenset(
    """
    alias as_strided broadcast_to chunk data detach detach_ diagonal empty empty_like empty_strided expand expand_as
    flatten is_nonzero item lift_fresh local_scalar_dense movedim narrow new_empty new_empty_strided numpy_T permute
    resize_ resolve_conj resolve_neg result_type reshape reshape_alias reshape_as select set_ slice split
    split_with_sizes squeeze stride_ t tensor_split to transpose unbind unflatten unfold unsafe_split unsafe_view
    unsqueeze view view_as view_as_complex view_as_real
    """.split()  # noqa: SIM905
)
"""Operators that move no data; an inner copy or fill is seen under its own name."""
COMPILED = "Torch-Compiled Region"
REPEATS = 5
PROFILE, CPU, CUDA = (
    torch.profiler.profile,
    torch.profiler.ProfilerActivity.CPU,
    torch.profiler.ProfilerActivity.CUDA,
)
_settrace = sys.settrace
"""Taken before any candidate, as this file is loaded before."""
HARMLESS = (StopIteration, GeneratorExit, KeyError, AttributeError, StopAsyncIteration)
"""Exceptions by which Python code looks things up; a kernel that fails raises others."""
MOST_NAMES = 8


def handle_operators(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Watch bound calls.

    Message: optional `index` (which bound call, default 0) and `repeats`.

    Reply: `operators` [{"op": "aten::mm", "count": per call, "time_us": per call, self time}], slowest first, glue left
    out; `call_us` (least, unwatched), `operators_us` (sum), `compiled` (whether a torch.compile region ran), and what
    `beside` finds.
    """
    repeats = message.get("repeats", REPEATS)
    if session.device == "cuda":
        from .kernels import observe

        return observe(session, message, repeats)
    call = bound_call(session, message.get("index", 0))
    plain = timed(call, repeats)
    _, rows, compiled = watch(call, repeats)
    total = sum(row["time_us"] for row in rows)
    return {
        "operators": rows,
        "call_us": min(plain),
        "operators_us": total,
        "compiled": compiled,
        **beside(session, call),
    }


def beside(session: Session, call: Callable[[], Any]) -> dict[str, Any]:
    """What is looked at on every device.

    `static_output` (as `keeps_its_result`); `own_code` (whether machine code of its own is loaded, as far as can be
    told: on a GPU it may lie in the device's memory alone); `linked` (functions of libraries that it links to);
    `fallbacks` (exceptions that its code caught in a call).
    """
    owned = own_code(session.scratch)
    return {
        "static_output": keeps_its_result(session, call),
        "own_code": bool(owned) or session.device == "cuda",
        "linked": sorted({name for item in owned for name in item.asked})[:MOST_NAMES],
        "fallbacks": caught(session, call),
    }


def caught(session: Session, call: Callable[[], Any]) -> list[str]:
    """Exceptions that arose in the candidate's own lines during a call that ended well: "RuntimeError at line 12"."""
    found: list[str] = []

    def in_frame(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception" and not issubclass(argument[0], HARMLESS):
            found.append(f"{argument[0].__name__} at line {frame.f_lineno}")
        return in_frame

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return in_frame if frame.f_code.co_filename in session.candidate_files else None

    _settrace(entered)
    try:
        call()
    finally:
        _settrace(None)
    return sorted(set(found))[:MOST_NAMES]


def keeps_its_result(session: Session, call: Callable[[], Any]) -> bool:
    """Whether a result lies in memory that the next call writes again, other than the model's own state."""
    first, second = (
        [leaf for leaf in tree_leaves(call()) if isinstance(leaf, torch.Tensor)] for _ in range(2)
    )
    held = {leaf.untyped_storage().data_ptr() for leaf in first} & {
        leaf.untyped_storage().data_ptr() for leaf in second
    }
    model, item = session.model, session.bound[0]
    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    own = {leaf.untyped_storage().data_ptr() for leaf in (*state, *item.inputs)}
    return bool(held - own - {0})


def bound_call(session: Session, index: int) -> Callable[[], Any]:
    """A bound call as a function without arguments, whose errors are the candidate's.

    Raises:
        Failure: (the function) forward raised.
    """
    target, item = session.callable(), session.bound[index]

    def call() -> Any:
        try:
            with torch.no_grad():
                result = target(*item.args, **item.kwargs)
                session.settle()
                return result
        except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
            told = describe(error, session)
            raise Failure(told["status"], told["detail"], told["hint"]) from None

    return call


def timed(call: Callable[[], Any], repeats: int) -> list[float]:
    """Microseconds of each of `repeats` calls, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        began = perf_counter()
        call()
        times.append(1e6 * (perf_counter() - began))
    return times


def watch(call: Callable[[], Any], repeats: int) -> tuple[float, list[dict[str, Any]], bool]:
    """Watched microseconds per call, operators (self time per call), and whether compiled code ran."""
    call()
    with PROFILE(activities=[CPU]) as profile:
        began = perf_counter()
        for _ in range(repeats):
            call()
        watched = 1e6 * (perf_counter() - began) / repeats
    rows: list[dict[str, Any]] = []
    compiled = False
    for entry in profile.key_averages():
        compiled = compiled or entry.key.startswith(COMPILED)
        space, _, name = entry.key.partition("::")
        if space == "aten" and name.lstrip("_") not in GLUE:
            time_us = entry.self_cpu_time_total / repeats
            rows.append({"op": entry.key, "count": entry.count / repeats, "time_us": time_us})
    rows.sort(key=lambda row: -row["time_us"])
    return watched, rows, compiled
