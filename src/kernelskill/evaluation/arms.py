"""The CPU's table: how each arm is started, given its state, and seated. Another device is another table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Limits, Worker
from kernelskill.evaluation.reference import ReferenceSide, load_arm, reference_worker
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.state import State
from kernelskill.evaluation.stock_worker import StockWorker
from kernelskill.records import Candidate, Task, Workload

SLOT_BYTES = 192 << 20
"""Memory that the calls of one seat may take, inputs and outputs together."""
MOST_CALLS = 32
BURST_S = 0.04
"""Seconds that a burst of eager takes at most, about."""
FREE_SHARE = 0.3
"""Share of the free memory that the slots of one seat may take."""
LOAD_S = 120.0
"""Longest time to import a candidate and build its kernels."""
WORKER_BYTES = 700 << 20
"""Memory that a stock arm with torch (and the compiler) loaded takes, about."""
REFERENCE_LIMITS = Limits(memory_bytes=64 << 30, cpu_s=3600, processes=256, file_bytes=1 << 30, start_s=60.0)


@dataclass(frozen=True)
class Table:
    """What every seat of a task shares."""

    task: Task
    workload: Workload
    sandbox: Sandbox
    threads: int
    cache: Path
    """Compiled artefacts of the stock arms."""
    calls: int
    """Calls per burst."""
    patience_s: float
    """Longest time for a first call, in which kernels may still be built, and time on top of every later one."""

    unavailable = {"graph": "CUDA graphs need a GPU", "compile+graph": "CUDA graphs need a GPU"}
    """Stock arms that this device cannot have."""

    @property
    def moved(self) -> int:
        """Bytes of inputs and outputs of one call."""
        return sum(spec.nbytes for spec in (*self.workload.inputs, *self.workload.outputs))

    @property
    def limits(self) -> Limits:
        """Generous for honest code, deadly for bombs."""
        return Limits(
            memory_bytes=(8 << 30) + 40 * self.moved,
            cpu_s=900,
            processes=128,
            file_bytes=1 << 30,
            start_s=60.0,
        )

    @property
    def seconds(self) -> float:
        """Longest time for one burst: twenty times what eager needs, and a while on top."""
        return self.patience_s / 6 + 20.0 * self.workload.eager_ms * self.calls / 1e3

    def reference(self) -> ReferenceSide:
        """A fresh reference worker.

        Raises:
            TaskError: the reference cannot be loaded.
            StockFailure: it cannot be spoken to.
        """
        worker = reference_worker("reference", self.task, self.sandbox, REFERENCE_LIMITS, self.threads)
        try:
            load_arm(worker, self.task, "eager")
            return ReferenceSide(worker, self.workload, self.calls, max(60.0, self.seconds))
        except BaseException:
            # The worker must not outlive whatever ended its seating.
            worker.close()
            raise

    def stock(self, arm: str, initial: dict[str, torch.Tensor], first: torch.Tensor) -> Seat:
        """A stock arm ("eager", "compile" or "null"), warm: its first call (which compiles) is behind it.

        Args:
            arm: which one.
            initial: the state that it gets.
            first: a batch of inputs for the first call.

        Raises:
            TaskError: the reference cannot be loaded.
            StockFailure: the arm does not run.
        """
        if arm == "null":
            worker = StockWorker("null", sandbox=self.sandbox, limits=self.limits, threads=self.threads)
        else:
            cache = self.cache / arm if arm == "compile" else None
            worker = reference_worker(arm, self.task, self.sandbox, REFERENCE_LIMITS, self.threads, cache)
        try:
            if arm != "null":
                load_arm(worker, self.task, arm)
            seat = self._seated(worker, first_call_s=2 * LOAD_S)
        except BaseException:
            # The worker must not outlive whatever ended its seating.
            worker.close()
            raise
        with _closed_on_error(seat):
            if arm != "null":
                seat.state = State(worker, self.workload, seat.seconds, by_shape=False)
            seat.give_state(initial)
            seat.burst(first, command="null" if arm == "null" else "run", calls=1)
        return seat

    def candidate(self, candidate: Candidate) -> Seat:
        """A candidate in a fresh worker of its own.

        Raises:
            WorkerFailure: it cannot be built; its verdict.
        """
        worker = Worker("candidate", sandbox=self.sandbox, limits=self.limits, threads=self.threads)
        try:
            worker.ready()
            worker.call(
                "load_candidate",
                timeout_s=2 * self.patience_s,
                source=candidate.source,
                entry=candidate.entry,
                init_tree=self.workload.init_args,
                threads=self.threads,
            )
            seat = self._seated(worker, first_call_s=self.patience_s)
        except BaseException:
            # The worker must not outlive whatever ended its seating.
            worker.close()
            raise
        with _closed_on_error(seat):
            seat.state = State(worker, self.workload, self.seconds, by_shape=True)
        return seat

    def sets_that_fit(self, arms: int, wanted: int) -> int:
        """How many process sets of so many arms memory holds side by side; at least one."""
        per_set = arms * (WORKER_BYTES + self.calls * self.moved)
        return max(1, min(wanted, int(FREE_SHARE * free_bytes() / per_set)))

    def _seated(self, worker: Worker, *, first_call_s: float) -> Seat:
        return Seat(
            worker,
            Layout.of(self.workload.inputs, self.calls),
            Layout.of(self.workload.outputs, self.calls),
            self.workload.inputs_tree,
            self.workload.outputs_tree,
            seconds=self.seconds,
            first_call_s=first_call_s,
        )


@contextmanager
def _closed_on_error(seat: Seat) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # Neither worker nor slots must outlive whatever ended the seating.
        seat.close()
        raise


def calls_for(workload: Workload, bytes_free: int) -> int:
    """Calls per burst: what memory and patience allow, at most 32; at least two, or one where a call is huge."""
    moved = max(1, sum(spec.nbytes for spec in (*workload.inputs, *workload.outputs)))
    room = int(min(SLOT_BYTES, FREE_SHARE * bytes_free))
    in_time = int(1e3 * BURST_S / max(workload.eager_ms, 1e-3))
    return max(1 if moved > room // 2 else 2, min(MOST_CALLS, room // moved, in_time))


def free_bytes() -> int:
    """Memory that can be had now, page cache included."""
    with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123  one line of a kernel file
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
