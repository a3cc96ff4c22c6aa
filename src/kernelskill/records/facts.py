"""Facts about a program, and the profile that most of them come from."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

from kernelskill.records.base import Record, Scalar

Origin = Literal["measured", "parsed", "judged"]


class Fact(Record):
    """One fact. `subject` is a kernel's or node's name, or "" for the whole program."""

    name: str
    value: Scalar
    """None means unknown, which makes no condition true."""
    origin: Origin
    unit: str = ""
    subject: str = ""


class Facts(Record):
    """All that is known about one candidate on one device."""

    facts: tuple[Fact, ...] = ()

    def get(self, name: str, subject: str = "") -> Scalar:
        """The value of a fact of that subject, else of the whole program, else None (unknown)."""
        found: Scalar = None
        for fact in self.facts:
            if fact.name == name and fact.subject == subject:
                return fact.value
            if fact.name == name and fact.subject == "":
                found = fact.value
        return found

    def subjects(self) -> tuple[str, ...]:
        """Names of the kernels and nodes that have facts of their own, in order."""
        return tuple(dict.fromkeys(fact.subject for fact in self.facts if fact.subject))


class StepProfile(Record):
    """Measured share of one step (a kernel of ours, or a library operator) in a call of forward."""

    name: str
    """Kernel name as in the program, or operator name ("aten.mm.default")."""
    kind: Literal["kernel", "operator", "overhead"]
    time_us: float
    """Median time of the step within one call, microseconds."""
    calls: int
    one_thread_us: float | None = None
    """Median time of the step with a single thread, microseconds; None where not measured."""


class Profile(Record):
    """Where the time of one candidate goes."""

    kind: Literal["counters", "timeline", "static"]
    """What it rests on; the loop goes on with less."""
    total_us: float | None
    """Median time of a call in the profiling worker, microseconds. Never used as a result."""
    steps: tuple[StepProfile, ...]
    static: dict[str, dict[str, Scalar]] = {}
    """Per kernel: facts read from the machine code (vector registers used, spills, calls to libm)."""
    counters: dict[str, dict[str, Scalar]] = {}
    """Per kernel: facts from hardware counters of one call, its launches weighted by their time. A kernel that is no
    step stands under its function's name."""
    note: str = ""
    """What was not available, and why."""


class Ceilings(Record):
    """What this device can do at best, measured once and cached."""

    device: str
    threads: int
    bandwidth_gb_per_s: dict[str, float]
    """Footprint in bytes (as text) -> best read+write bandwidth at that footprint, all threads."""
    fp32_gflops: float
    """Best fused multiply-add rate, all threads."""
    exp_gops: float
    """Vector exponentials per nanosecond, all threads."""
    parallel_us: float
    """Cost of opening and closing one parallel region, microseconds."""
    call_us: float
    """Cost of calling one compiled kernel from Python, microseconds."""
    operator_us: float
    """Cost of dispatching one library operator on a tiny tensor, microseconds."""
    measured_on: str
    """ISO date of the measurement."""
    read_gb_per_s: dict[str, float] = {}
    """Footprint in bytes (as text) -> best bandwidth of reading alone; empty = as `bandwidth_gb_per_s`."""
    write_gb_per_s: dict[str, float] = {}
    """Footprint in bytes (as text) -> best bandwidth of writing alone; empty = as `bandwidth_gb_per_s`."""
    tf32_gflops: float | None = None
    """Rate of products whose inputs are rounded to TF32, which is what convolutions do on a GPU by default; None where
    there are none."""
    cache_bytes: int | None = None
    """Private (second-level) cache of all threads together; None where the system doesn't tell."""
    compute_capability: int | None = None
    """Of a GPU, e.g. 90 for 9.0; None for a processor."""

    def traffic_us(self, read_bytes: float, written_bytes: float) -> float:
        """Microseconds that moving so many distinct bytes takes at least, at that footprint.

        The cheaper of two models: reads and writes overlap as in a copy, with the rest alone; or one after the other.
        The second asks that what is read waits on chip, which on a GPU it cannot where it is more than the cache holds.
        """
        footprint = read_bytes + written_bytes
        copy = _at(self.bandwidth_gb_per_s, footprint)
        read = _at(self.read_gb_per_s or self.bandwidth_gb_per_s, footprint)
        write = _at(self.write_gb_per_s or self.bandwidth_gb_per_s, footprint)
        paired = min(read_bytes, written_bytes)
        overlapped = 2 * paired / copy + (read_bytes - paired) / read + (written_bytes - paired) / write
        if self.compute_capability is not None and paired > (self.cache_bytes or math.inf):
            return overlapped / 1e3
        return min(overlapped, read_bytes / read + written_bytes / write) / 1e3


def _at(points: dict[str, float], footprint: float) -> float:
    """Interpolate linearly over the logarithm of the footprint; flat outside the measured range."""
    known = sorted((float(size), rate) for size, rate in points.items())
    for (low, left), (high, right) in pairwise(known):
        if low <= footprint <= high:
            return left + (right - left) * math.log(footprint / low) / math.log(high / low)
    return known[0][1] if footprint < known[0][0] else known[-1][1]


class Floor(Record):
    """The time below which no program can go on this device."""

    bytes_min: int
    """Inputs + state read once, outputs written once."""
    flops: float
    """Floating-point operations that the mathematics needs (multiply-add = 2)."""
    transcendentals: float
    """Evaluations of exp, log, tanh, erf, ... that the mathematics needs."""
    launches: int
    """Operators that eager dispatches."""
    memory_ms: float
    compute_ms: float
    overhead_ms: float
    """At least one kernel call."""
    floor_ms: float
    """max(memory, compute) + overhead."""
    bound: Literal["memory", "compute", "overhead"]
    per_node: dict[str, float] = {}
    """Node -> its own lower bound in milliseconds, if it ran alone."""
