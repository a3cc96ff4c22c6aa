"""The profiling worker's raw times -> steps of a profile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from kernelskill.records import Json, StepProfile


def total_us(raw: Json) -> float | None:
    """Median microseconds of a call, or None when no call was timed."""
    if not isinstance(raw, Mapping):
        return None
    return median(raw.get("calls_us") or ())


def steps(raw: Json) -> tuple[StepProfile, ...]:
    """Kernels and operators, slowest first, then what a call spends outside of them ("python").

    Args:
        raw: The worker's reply: `calls_us`, `kernels` {name: {times_us, count}}, `operators` [{op, count, time_us}] and
            `one_thread` with the same of a single thread.
    """
    if not isinstance(raw, Mapping):
        return ()
    single = {name: time for name, _, time, _ in _timed(raw.get("one_thread") or {})}
    found = [
        StepProfile(name=name, kind=kind, time_us=time, calls=calls, one_thread_us=single.get(name))
        for name, kind, time, calls in _timed(raw)
    ]
    found.sort(key=lambda step: -step.time_us)
    whole = total_us(raw)
    if whole is not None:
        rest = max(0.0, whole - sum(step.time_us for step in found))
        found.append(StepProfile(name="python", kind="overhead", time_us=rest, calls=1))
    return tuple(found)


def median(times: Sequence[float]) -> float | None:
    """Median of the times that are numbers, or None."""
    known = [value for value in map(_positive, times) if value is not None]
    return statistics.median(known) if known else None


Kind = Literal["kernel", "operator"]


def _timed(raw: Mapping[str, Any]) -> Iterator[tuple[str, Kind, float, int]]:
    """(name, kind, microseconds per call of forward, calls) of every step that ran and was timed."""
    for name, seen in (raw.get("kernels") or {}).items():
        time = median(seen["times_us"])
        if time is not None and seen["count"]:
            yield name, "kernel", time, int(seen["count"])
    for seen in raw.get("operators", ()):
        time = _positive(seen["time_us"])
        if time is not None:
            yield operator_name(seen["op"]), "operator", time, max(1, round(seen["count"]))


def operator_name(key: str) -> str:
    """The profiler's "aten::mm" as it is spelled in graphs, without an overload: "aten.mm"."""
    return key.replace("::", ".")


def _positive(value: object) -> float | None:
    """A finite number of at least 0, else None: times come from a process that is not trusted."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value < 0
    ):
        return None
    return float(value)
