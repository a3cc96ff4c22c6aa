"""The table of a task: how each arm is started, given its state, and seated, on whatever device."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from kernelskill.errors import TaskError
from kernelskill.evaluation.device import CPU, Device
from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Limits, Worker
from kernelskill.evaluation.reference import ReferenceSide, load_arm, reference_worker
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.state import State
from kernelskill.evaluation.stock_worker import StockFailure, StockWorker
from kernelskill.records import Candidate, Task, Workload

FREE_SHARE = 0.3
"""Share of the free memory that the slots of one seat may take."""
HOST_SHARE = 0.5
"""Share of the machine's memory for a worker whose address space cannot be limited: a GPU's driver reserves much."""
LOAD_S = 120.0
"""Longest time to import a candidate and build its kernels."""
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

    device: Device = CPU

    @property
    def unavailable(self) -> dict[str, str]:
        """Stock arms that this device cannot have, and why."""
        return self.device.unavailable(self.workload)

    @property
    def timed_arms(self) -> tuple[str, ...]:
        """Stock arms that can be timed, eager first; where weights are frozen, compile also with them folded in."""
        arms = [arm for arm in self.device.arms if arm not in self.unavailable]
        if self.task.weights == "frozen":
            arms += [arm.replace("compile", "compile-frozen") for arm in arms if arm.startswith("compile")]
        return tuple(arms)

    @property
    def moved(self) -> int:
        """Bytes of inputs and outputs of one call."""
        return sum(spec.nbytes for spec in (*self.workload.inputs, *self.workload.outputs))

    @property
    def limits(self) -> Limits:
        """Generous for honest code, deadly for bombs."""
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Limits(
            memory_bytes=(8 << 30) + 40 * self.moved if self.device.limits_memory else 0,
            tree_bytes=0 if self.device.limits_memory else int(HOST_SHARE * machine),
            cpu_s=900,
            processes=128 if self.device.limits_memory else 512,
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
        worker = self._loaded_reference()
        again = self._loaded_reference if self.device.name == "cuda" else None
        try:
            return ReferenceSide(
                worker, self.workload, self.calls, max(60.0, self.seconds), self.device, again,
                moved=self.task.weights == "frozen",
            )  # fmt: skip
        except BaseException:  # the worker must not outlive whatever ended its seating
            worker.close()
            raise

    def _loaded_reference(self) -> StockWorker:
        worker = self._reference_worker("reference")
        try:
            self.device.meet(worker)
            load_arm(worker, self.task, "eager")
        except BaseException:  # the worker must not outlive whatever ended its loading
            worker.close()
            raise
        return worker

    def _reference_worker(self, arm: str, cache: Path | None = None) -> StockWorker:
        limits = reference_limits(self.device)
        return reference_worker(arm, self.task, self.sandbox, limits, self.threads, cache, self.device.name)

    def loaded(self, arms: Sequence[str]) -> StockWorker:
        """A fresh worker with the reference loaded as each of these stock arms; it holds no inputs yet.

        Raises:
            TaskError: the reference cannot be loaded.
            StockFailure: it cannot be spoken to.
        """
        compiles = any(arm.startswith("compile") for arm in arms)
        worker = self._reference_worker("stock", self.cache / "stock" if compiles else None)
        try:
            for arm in arms:
                self._load(worker, arm)
        except BaseException:  # the worker must not outlive whatever ended its loading
            worker.close()
            raise
        return worker

    def _load(self, worker: StockWorker, arm: str) -> None:
        try:
            load_arm(worker, self.task, arm)
        except TaskError as error:
            if arm != "eager" and isinstance(error.__cause__, StockFailure):
                raise error.__cause__ from None  # the task is fine, this arm is not
            raise

    def bench(
        self,
        arms: Sequence[str],
        initial: dict[str, torch.Tensor],
        first: torch.Tensor,
        loaded: StockWorker | None = None,
    ) -> tuple[dict[str, Seat], dict[str, str]]:
        """Stock arms side by side in one process, warm: their first calls (which compile) are behind them.

        On a GPU a process takes longer to start than a task's calls take; one arm runs at a time anyway.

        Args:
            arms: which ones; "eager" among them.
            initial: the state that they get.
            first: a batch of inputs for the first calls.
            loaded: a worker with these arms; default: a new one.

        Returns:
            Their seats, and why others could not be had.

        Raises:
            TaskError: the reference cannot be loaded.
            StockFailure: eager does not run.
        """
        failed: dict[str, str] = {}
        while True:
            left = [arm for arm in arms if arm not in failed]
            try:
                return self._warm(loaded or self.loaded(left), left, initial, first), failed
            except StockFailure as failure:
                # What a failed capture leaves behind might disturb the others: they get a new process.
                if failure.role not in left or failure.role == "eager":
                    raise
                failed[failure.role], loaded = failure.line, None

    def _warm(
        self, worker: StockWorker, arms: Sequence[str], initial: dict[str, torch.Tensor], first: torch.Tensor
    ) -> dict[str, Seat]:
        try:
            bench = self._seated(worker, first_call_s=2 * LOAD_S, trusted=True)
        except BaseException:  # the worker must not outlive whatever ended its seating
            worker.close()
            raise
        seats: dict[str, Seat] = {}
        try:
            for arm in arms:
                seats[arm] = seat = bench.of(arm)
                seat.state = State(
                    worker, self.workload, seat.seconds, by_shape=False, device=self.device, arm=arm
                )
                seat.give_state(initial)
                seat.burst(first, calls=1)
        except BaseException:  # nothing must outlive whatever ended the first calls
            for seat in (*seats.values(), bench):
                seat.close()
            raise
        return seats

    def candidate_worker(self) -> Worker:
        """A fresh worker for one candidate; it starts in the background."""
        return Worker(
            "candidate",
            sandbox=self.sandbox,
            limits=self.limits,
            threads=self.threads,
            device=self.device.name,
        )

    def candidate(self, candidate: Candidate, fresh: Worker | None = None) -> Seat:
        """A candidate in a fresh worker of its own.

        Args:
            candidate: what is loaded.
            fresh: a worker that has been asked for nothing yet; default: a new one.

        Raises:
            WorkerFailure: it cannot be built; its verdict.
        """
        worker = fresh or self.candidate_worker()
        try:
            worker.ready()
            worker.call(
                "load_candidate",
                timeout_s=2 * self.patience_s,
                source=candidate.source,
                entry=candidate.entry,
                init_tree=self.workload.init_args,
                threads=self.threads,
                precision=self.task.precision.value,
            )
            seat = self._seated(worker, first_call_s=self.patience_s)
        except BaseException:  # the worker must not outlive whatever ended its seating
            worker.close()
            raise
        with _closed_on_error(seat):
            seat.state = State(worker, self.workload, self.seconds, by_shape=True, device=self.device)
        return seat

    def sets_that_fit(self, arms: int, wanted: int) -> int:
        """How many process sets of so many arms memory holds side by side; at least one."""
        per_set = arms * self.device.worker_bytes(self.calls * self.moved)
        return max(1, min(wanted, int(FREE_SHARE * self.device.free_bytes() / per_set)))

    def _seated(self, worker: Worker, *, first_call_s: float, trusted: bool = False) -> Seat:
        return seat_class(self.device)(
            worker,
            Layout.of(self.workload.inputs, self.calls),
            Layout.of(self.workload.outputs, self.calls),
            self.workload.inputs_tree,
            self.workload.outputs_tree,
            seconds=self.seconds,
            first_call_s=first_call_s,
            device=self.device,
            trusted=trusted,
        )


def seat_class(device: Device) -> type[Seat]:
    """How workers are timed on a device."""
    if device.name == "cpu":
        return Seat
    from kernelskill.evaluation.cuda.seat import CudaSeat

    return CudaSeat


def reference_limits(device: Device) -> Limits:
    """What the reference and the stock arms may use on a device."""
    if device.limits_memory:
        return REFERENCE_LIMITS
    # Arms with a cache share one user id, under which all their threads count.
    return replace(REFERENCE_LIMITS, memory_bytes=0, processes=2048)


@contextmanager
def _closed_on_error(seat: Seat) -> Iterator[None]:
    try:
        yield
    except BaseException:  # neither worker nor slots must outlive whatever ended the seating
        seat.close()
        raise


def calls_for(workload: Workload, bytes_free: int, device: Device) -> int:
    """Calls per burst: what memory and patience allow; at least two, or one where a call is huge."""
    moved = max(1, sum(spec.nbytes for spec in (*workload.inputs, *workload.outputs)))
    room = int(min(device.slot_bytes, FREE_SHARE * bytes_free))
    in_time = int(1e3 * device.burst_s / max(workload.eager_ms, 1e-3))
    return max(1 if moved > room // 2 else 2, min(device.most_calls, room // moved, in_time))
