"""Time the kernels inside a call, in a worker that is not judged."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import torch

from .observe import bound_call, timed, watch
from .session import Session

OPENMP = re.compile(r"\S*/lib(?:gomp|omp|iomp5)[^/\s]*\.so\S*")


def handle_profile(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Time module-level functions of the candidate's source within bound calls.

    Message: `kernels` (names), `repeats`, optional `index` (which bound call).

    Reply, microseconds: `calls_us` (one per repeat); `kernels` {name: {"times_us": [sum per call], "count": per call}};
    `operators` as in `operators`; `one_thread`: the same `calls_us` and `kernels` on one processor with one thread;
    `unknown`: names that the source does not define.
    """
    if session.device == "cuda":
        from .device_steps import profile

        return profile(session, message)
    repeats = message.get("repeats", 5)
    call = bound_call(session, message.get("index", 0))
    module = sys.modules.get(session.module_name)
    names = [name for name in message["kernels"] if callable(getattr(module, name, None))]
    many = _measure(call, module, names, repeats)
    with one_thread():
        single = _measure(call, module, names, repeats)
    _, operators, compiled = watch(call, repeats)
    unknown = [name for name in message["kernels"] if name not in names]
    return {**many, "one_thread": single, "operators": operators, "compiled": compiled, "unknown": unknown}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold the whole process to one thread of OpenMP and torch, and to one processor."""
    threads, processors = torch.get_num_threads(), os.sched_getaffinity(0)
    runtimes = [ctypes.CDLL(path) for path in _openmp_runtimes()]
    before = [runtime.omp_get_max_threads() for runtime in runtimes]
    try:
        torch.set_num_threads(1)
        for runtime in runtimes:
            runtime.omp_set_num_threads(1)
        _pin({min(processors)})
        yield
    finally:
        _pin(processors)
        for runtime, number in zip(runtimes, before, strict=True):
            runtime.omp_set_num_threads(number)
        torch.set_num_threads(threads)


def _measure(
    call: Callable[[], Any], module: ModuleType | None, names: list[str], repeats: int
) -> dict[str, Any]:
    kernels: dict[str, Any] = {}
    if module is not None and names:
        with _wrapped(module, names) as spent:
            call()
            per_call: dict[str, list[float]] = {name: [] for name in names}
            counts: dict[str, int] = {}
            for _ in range(repeats):
                for name in names:
                    spent[name].clear()
                call()
                for name in names:
                    per_call[name].append(sum(spent[name]))
                    counts[name] = len(spent[name])
        kernels = {name: {"times_us": per_call[name], "count": counts.get(name, 0)} for name in names}
    return {"calls_us": timed(call, repeats), "kernels": kernels}


@contextlib.contextmanager
def _wrapped(module: ModuleType, names: list[str]) -> Iterator[dict[str, list[float]]]:
    """Replace functions of a module by ones that note how long each call took, microseconds."""
    spent: dict[str, list[float]] = {name: [] for name in names}
    originals = {name: getattr(module, name) for name in names}
    for name in names:
        setattr(module, name, _timing(originals[name], spent[name]))
    try:
        yield spent
    finally:
        for name, original in originals.items():
            setattr(module, name, original)


def _timing(function: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            times.append(1e6 * (perf_counter() - began))

    return wrapper


def _pin(processors: set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), processors)


def _openmp_runtimes() -> list[str]:
    """Every OpenMP runtime loaded: torch brings its own beside the compiler's."""
    return sorted(set(OPENMP.findall(Path("/proc/self/maps").read_text(encoding="utf-8"))))
