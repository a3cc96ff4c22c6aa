"""Workers at the table: how each arm is started, given its state, and seated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Limits, Worker
from kernelskill.evaluation.reference import load_arm, reference_worker
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.state import State
from kernelskill.records import Candidate, Task, Workload

SLOT_BYTES = 192 << 20
"""Memory that the calls of one seat may take, inputs and outputs each counted."""
MOST_CALLS = 16
LOAD_S = 120.0
"""Longest time to import a candidate and build its kernels."""


@dataclass(frozen=True)
class Table:
    """What every seat of a task shares."""

    task: Task
    workload: Workload
    sandbox: Sandbox
    threads: int
    cache: Path
    """Compiled artefacts of the stock arms."""

    @property
    def calls(self) -> int:
        """Calls per burst: at least two, or one where a call is huge."""
        moved = sum(spec.nbytes for spec in (*self.workload.inputs, *self.workload.outputs))
        return max(1 if moved > SLOT_BYTES else 2, min(MOST_CALLS, SLOT_BYTES // max(moved, 1)))

    @property
    def limits(self) -> Limits:
        """Generous for honest code, deadly for bombs."""
        moved = sum(spec.nbytes for spec in (*self.workload.inputs, *self.workload.outputs))
        return Limits(
            memory_bytes=(8 << 30) + 40 * moved, cpu_s=900, processes=128, file_bytes=1 << 30, start_s=60.0
        )

    @property
    def seconds(self) -> float:
        """Longest time for one burst: twenty times what eager needs, and ten seconds."""
        return 10.0 + 20.0 * self.workload.eager_ms * self.calls / 1e3

    def stock(self, arm: str, initial: dict[str, torch.Tensor], first: torch.Tensor) -> Seat:
        """A stock arm ("eager" or "compile"), warm: its first call (which compiles) is behind it.

        Args:
            arm: which one.
            initial: the state that it gets.
            first: a batch of inputs for the first call.

        Raises:
            TaskError: the reference cannot be loaded.
            WorkerFailure: the arm does not run.
        """
        cache = self.cache / arm if arm == "compile" else None
        worker = reference_worker(arm, self.task, self.sandbox, self.limits, self.threads, cache)
        try:
            load_arm(worker, self.task, arm)
            seat = self._seated(worker, frozen=False, seconds=max(self.seconds, LOAD_S))
            State(worker, self.workload, seat.seconds, by_shape=False).write(initial)
            seat.burst(first, calls=1)
        except BaseException:
            # The worker must not outlive whatever ended its seating.
            worker.close()
            raise
        return seat

    def null(self) -> Seat:
        """A worker that copies a ready result."""
        worker = Worker("null", sandbox=self.sandbox, limits=self.limits, threads=self.threads)
        return self._seated(worker, frozen=False, seconds=self.seconds)

    def candidate(self, candidate: Candidate) -> tuple[Seat, State]:
        """A candidate in a fresh worker of its own.

        Raises:
            WorkerFailure: it cannot be built; its verdict.
        """
        worker = Worker("candidate", sandbox=self.sandbox, limits=self.limits, threads=self.threads)
        try:
            worker.ready()
            worker.call(
                "load_candidate",
                timeout_s=LOAD_S,
                source=candidate.source,
                entry=candidate.entry,
                init_tree=self.workload.init_args,
                threads=self.threads,
            )
            seat = self._seated(worker, frozen=True, seconds=self.seconds)
            return seat, State(worker, self.workload, self.seconds, by_shape=True)
        except BaseException:
            # The worker must not outlive whatever ended its seating.
            worker.close()
            raise

    def _seated(self, worker: Worker, *, frozen: bool, seconds: float) -> Seat:
        return Seat(
            worker,
            Layout.of(self.workload.inputs, self.calls),
            Layout.of(self.workload.outputs, self.calls),
            self.workload.inputs_tree,
            self.workload.outputs_tree,
            frozen=frozen,
            seconds=seconds,
        )
