"""The reference worker as the judge uses it: draws inputs, gives eager's results and those of the float64 twin."""

from __future__ import annotations

from pathlib import Path

import torch

from kernelskill.errors import TaskError, WorkerError
from kernelskill.evaluation import families
from kernelskill.evaluation.channel import Slot
from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Limits, Worker, WorkerFailure
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import Seat, as_float64
from kernelskill.evaluation.state import State
from kernelskill.records import Finding, Task, Workload

DESCRIBE_S = 300.0


def reference_worker(
    role: str, task: Task, sandbox: Sandbox, limits: Limits, threads: int, cache: Path | None = None
) -> Worker:
    """A worker that may read what the reference imports."""
    reference = task.reference
    readable = [Path(folder) for folder in reference.search_path]
    readable += [Path(reference.path)] if reference.path else []
    return Worker(role, sandbox=sandbox, limits=limits, threads=threads, trusted_cache=cache, readable=readable)


def load_arm(worker: Worker, task: Task, arm: str) -> None:
    """Load the reference into a worker as one arm.

    Raises:
        TaskError: the reference cannot be loaded; one clear line.
    """
    try:
        worker.call(
            "load_reference", timeout_s=DESCRIBE_S, reference=task.reference.model_dump(mode="json"), arm=arm
        )
    except WorkerFailure as failure:
        line = next((item for item in failure.detail.splitlines() if item.strip()), failure.status.value)
        raise TaskError(f"{task.name}: {line}") from failure


def describe(worker: Worker, task: Task, seed: int) -> Workload:
    """Run the reference once.

    Raises:
        TaskError: it does not run on its own inputs; one clear line.
    """
    load_arm(worker, task, "eager")
    try:
        return Workload.model_validate(worker.call("describe", timeout_s=DESCRIBE_S, seed=seed))
    except WorkerFailure as failure:
        line = next((item for item in failure.detail.splitlines() if item.strip()), failure.status.value)
        raise TaskError(f"{task.name}: {line}") from failure


class ReferenceSide:
    """Inputs and expected values of one task."""

    def __init__(self, worker: Worker, workload: Workload, count: int, seconds: float) -> None:
        self.worker = worker
        self.workload = workload
        self.layout = Layout.of(workload.inputs, count)
        self._seconds = seconds
        tree = (workload.inputs_tree, workload.outputs_tree)
        outputs, wide = Layout.of(workload.outputs, count), Layout.of(as_float64(workload.outputs), count)
        self._eager = Seat(worker, self.layout, outputs, *tree, frozen=False, seconds=seconds)
        self._twin = Seat(worker, self.layout, wide, *tree, frozen=False, seconds=seconds)
        self._bound: Seat = self._twin
        self._draws = Slot(self.layout.nbytes)
        self._drawn = torch.frombuffer(self._draws.view(), dtype=torch.uint8)
        self._number = worker.give(self._draws, writable=True)
        self.state = State(worker, workload, seconds, by_shape=False)
        self.initial = self.state.read()
        """The state that every arm starts every check from."""

    def draw(self, seeds: list[int], family: str = "task") -> torch.Tensor | None:
        """A private batch of inputs, one call per seed; None if the family changes nothing here."""
        specs = [spec.model_dump(mode="json") for spec in self.workload.inputs]
        for call, seed in enumerate(seeds):
            self.worker.call(
                "inputs",
                timeout_s=self._seconds,
                seed=seed,
                slots=[self._number] * len(specs),
                offsets=[call * self.layout.step + start for start in self.layout.starts],
                specs=specs,
            )
        batch = self._drawn.clone()
        if family in families.FAMILIES:
            for call, seed in enumerate(seeds):
                rng = torch.Generator().manual_seed(seed % (1 << 62) + 1)
                if not families.apply(family, self.layout.views(batch, call), rng):
                    return None
        return batch

    def eager(self, batch: torch.Tensor, calls: int) -> list[list[torch.Tensor]]:
        """Eager's results: per call, its output leaves."""
        return self._results(self._eager, "run", batch, calls)

    def twin(self, batch: torch.Tensor, calls: int) -> list[list[torch.Tensor]]:
        """The float64 twin's results; the reference's state is left as it was."""
        return self._results(self._twin, "run64", batch, calls)

    def _results(self, seat: Seat, command: str, batch: torch.Tensor, calls: int) -> list[list[torch.Tensor]]:
        if self._bound is not seat:
            seat.bind()
            self._bound = seat
        burst = seat.burst(batch, command=command, calls=calls)
        return [seat.outputs.views(burst.outputs, call) for call in range(calls)]

    def close(self) -> None:
        """End the worker."""
        self.state.close()
        self._drawn = torch.empty(0, dtype=torch.uint8)
        self._draws.close()
        self._eager.close()
        self._twin.close()


def must_live(worker: Worker, what: str) -> None:
    """Workers of ours don't die on their own.

    Raises:
        WorkerError: this one did.
    """
    if not worker.alive:
        raise WorkerError(f"the {what} worker ended: {worker.output[-500:]}")


def judge_findings(workload: Workload, bytes_free: int, powerless: str) -> tuple[Finding, ...]:
    """What the judge adds to the worker's audit."""
    found = list(workload.findings)
    codes = {item.code for item in found}
    if powerless and not codes & {"input-independent", "empty-output", "non-finite"}:
        message = f"the tolerance would let {powerless} pass: nothing can be proven on these inputs"
        found.append(Finding(code="powerless", message=message, fatal=True))
    moved = sum(spec.nbytes for spec in (*workload.inputs, *workload.outputs))
    if moved * 6 > bytes_free:
        found.append(
            Finding(
                code="too-big",
                message=f"one call moves {moved / 1e9:.1f} GB, {bytes_free / 1e9:.1f} GB are free: use smaller inputs",
                fatal=True,
            )
        )
    if workload.eager_ms < 0.02:
        found.append(
            Finding(
                code="overhead-bound",
                message=f"one call takes {1e3 * workload.eager_ms:.0f} us: mostly the cost of calling",
                fatal=False,
            )
        )
    return tuple(found)
