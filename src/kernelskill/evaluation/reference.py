"""The reference worker as the judge uses it: draws inputs, gives eager's results and those of the float64 twin."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import torch

from kernelskill.errors import TaskError
from kernelskill.evaluation import families
from kernelskill.evaluation.correctness import finite_share
from kernelskill.evaluation.device import CPU, Device
from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Limits
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import Burst, Seat, as_float64, results
from kernelskill.evaluation.state import State
from kernelskill.evaluation.stock_worker import StockFailure, StockWorker
from kernelskill.records import Task, TensorSpec, Workload

DESCRIBE_S = 300.0
EXAMINED = 16
"""Calls that are examined together at most, but for those in a row that leave a state behind."""
FINITE = 0.99
"""Share of the twin's results that must be finite for a family to count."""

Due = tuple[list[list[torch.Tensor]], list[list[torch.Tensor]]]
"""Eager's results and the twin's: per call, the output leaves."""


def reference_worker(
    role: str,
    task: Task,
    sandbox: Sandbox,
    limits: Limits,
    threads: int,
    cache: Path | None = None,
    device: str = "cpu",
) -> StockWorker:
    """A worker that may read what the reference imports."""
    reference = task.reference
    readable = [Path(folder) for folder in reference.search_path]
    readable += [Path(reference.path)] if reference.path else []
    return StockWorker(
        role,
        sandbox=sandbox,
        limits=limits,
        threads=threads,
        trusted_cache=cache,
        readable=readable,
        device=device,
    )


def load_arm(worker: StockWorker, task: Task, arm: str) -> None:
    """Load the reference into a worker as one arm.

    Raises:
        TaskError: the reference cannot be loaded; one clear line.
    """
    try:
        worker.call(
            "load_reference",
            timeout_s=DESCRIBE_S,
            reference=task.reference.model_dump(mode="json"),
            arm=arm,
            precision=task.precision.value,
        )
    except StockFailure as failure:
        raise TaskError(f"{task.name}: {failure.line}") from failure


def describe(worker: StockWorker, task: Task, seed: int, device: Device = CPU) -> Workload:
    """Run the reference once, and where others compute beside it, time it once more without them.

    Raises:
        TaskError: it does not run on its own inputs; one clear line.
    """
    load_arm(worker, task, "eager")
    try:
        seen = worker.call("describe", timeout_s=DESCRIBE_S, seed=seed)
        if device.name == "cuda":
            with device.alone():
                seen |= worker.call("time", timeout_s=DESCRIBE_S, seed=seed)
        return Workload.model_validate(seen)
    except StockFailure as failure:
        raise TaskError(f"{task.name}: {failure.line}") from failure


class ReferenceSide:
    """Inputs and expected values of one task.

    Args:
        worker: has the reference loaded.
        workload: what it was seen to take and give.
        count: calls in a batch.
        seconds: longest time for one command.
        device: where the worker computes.
        again: starts such a worker anew, where inputs that the reference refuses may take the whole worker down (a
            failed assert on a GPU does); without it the loss of the worker is an error.
        moved: begin from other parameters than those that the task's seed gives, which a candidate might know.
    """

    def __init__(
        self,
        worker: StockWorker,
        workload: Workload,
        count: int,
        seconds: float,
        device: Device = CPU,
        again: Callable[[], StockWorker] | None = None,
        *,
        moved: bool = False,
    ) -> None:
        self.workload = workload
        self.layout = Layout.of(workload.inputs, count)
        self.device = device
        self._seconds = seconds
        self._again = again
        self._places: dict[str, tuple[int, ...]] = {}
        self._lends: tuple[str, ...] | None = None
        self.make_room: Callable[[], None] = device.trim
        """Called before the twin computes, which takes many times the memory of a call."""
        self.powerless: dict[tuple[str, int], str] = {}
        """Family and output -> what wrong answer the gates would take ("" = none), as far as it was looked at."""
        self._sit(worker)
        self.initial = self._state.read()
        """The state that every arm starts every check from."""
        if moved:
            drawn = families.perturbed([*self.initial.values()], device.generator(secrets.randbits(62)))
            self.initial = dict(zip(self.initial, drawn, strict=True))
            self._state.write(self.initial)
        self._values = self.initial

    def _sit(self, worker: StockWorker) -> None:
        self.worker = worker
        tree = (self.workload.inputs_tree, self.workload.outputs_tree)
        count = self.layout.count
        asked = count if self.workload.updated_state else min(count, EXAMINED)
        wide = as_float64(self.workload.outputs)
        sizes = (Layout.of(self.workload.outputs, count).nbytes, Layout.of(wide, asked).nbytes)
        self.device.reserve(self.layout.nbytes, max(sizes))

        def seat(results: Sequence[TensorSpec]) -> Seat:
            layouts = (Layout.of(self.workload.inputs, asked), Layout.of(results, asked))
            return Seat(
                worker,
                *layouts,
                *tree,
                watched=False,
                seconds=self._seconds,
                device=self.device,
                trusted=True,
            )

        self._eager, self._twin = seat(self.workload.outputs), seat(wide)
        self._bound: Seat = self._twin
        self._draws = self.device.lend(self.layout.nbytes, "inputs", trusted=True)
        self._drawn = self._draws.tensor()
        self._number = worker.give(self._draws, writable=True)
        self._state = State(worker, self.workload, self._seconds, by_shape=False, device=self.device)

    def give_state(self, values: dict[str, torch.Tensor]) -> None:
        """Set the reference's parameters and buffers, which also every later call starts from."""
        self._values = values
        self._state.write(values)

    def draw(self, seeds: list[int], family: str = "task") -> torch.Tensor:
        """A private batch of inputs, one call per seed."""
        batch = self._draw(seeds)
        if family in families.FAMILIES:
            self._change(batch, seeds, family, self.places(family))
        return batch

    def places(self, family: str) -> tuple[int, ...]:
        """Input leaves that a family changes: as many as leave results finite; none if the family doesn't count."""
        if family not in self._places:
            self._places[family] = self._find_places(family)
        return self._places[family]

    def eager(self, batch: torch.Tensor, calls: int) -> list[list[torch.Tensor]]:
        """Eager's results: per call, its output leaves."""
        return self._results(self._eager, "run", batch, calls)

    def state_after(self, batch: torch.Tensor, calls: int) -> dict[str, torch.Tensor]:
        """Parameters and buffers after so many calls in a row from the initial state, which comes back."""
        self.give_state(self.initial)
        self._bind(self._eager)
        self._eager.burst(batch, calls=calls)
        after = self._state.read()
        self.give_state(self.initial)
        return after

    def twin_state_after(self, batch: torch.Tensor, calls: int) -> dict[str, torch.Tensor]:
        """The same of the float64 twin, rounded to the types that they have.

        Raises:
            StockFailure: there is no twin.
        """
        self.make_room()
        self.give_state(self.initial)
        self._bind(self._twin)
        self._twin.lay(batch, calls)
        return self._state.read_twin(calls)

    def lends(self, batch: torch.Tensor) -> tuple[str, ...]:
        """Outputs that the reference itself hands out in memory of an input, as the worker says it."""
        if self._lends is None:
            self._bind(self._eager)
            self._lends = self._eager.burst(batch, command="held", calls=1).flags
        return self._lends

    def smaller(self, batch: torch.Tensor) -> Burst:
        """What eager gives for the first call with one row less; shapes stand in the flags.

        Raises:
            StockFailure: the reference does not take that.
        """
        self._bind(self._eager)
        self._state.write(self._values)
        return self._eager.burst(batch, command="smaller", calls=1)

    def twin(self, batch: torch.Tensor, calls: int) -> list[list[torch.Tensor]]:
        """The float64 twin's results."""
        self.make_room()
        return self._results(self._twin, "run64", batch, calls)

    def due(self, batch: torch.Tensor, calls: int) -> Due:
        """Eager's and the twin's results. The twin takes most memory, so nothing else is held while it computes."""
        twin = self.twin(batch, calls)
        return self.eager(batch, calls), twin

    def close(self) -> None:
        """End the worker."""
        self._state.close()
        self._drawn = torch.empty(0, dtype=torch.uint8)
        self.device.give_back(self._draws)
        self._eager.close()
        self._twin.close()

    def revive(self, loss: StockFailure) -> None:
        """Start the worker anew after inputs that took it down, with the state it had.

        Args:
            loss: how it was lost.

        Raises:
            StockFailure: `loss`, where a loss is an error.
        """
        if self._again is None:
            raise loss
        self.close()
        self._sit(self._again())
        self._state.write(self._values)

    def _draw(self, seeds: list[int]) -> torch.Tensor:
        specs = [spec.model_dump(mode="json") for spec in self.workload.inputs]
        self.worker.call(
            "inputs",
            timeout_s=self._seconds * len(seeds),
            seeds=seeds,
            slots=[self._number] * len(specs),
            offsets=list(self.layout.starts),
            step=self.layout.step,
            specs=specs,
        )
        return self.device.private(self._drawn[: len(seeds) * self.layout.step])

    def _change(self, batch: torch.Tensor, seeds: list[int], family: str, places: tuple[int, ...]) -> None:
        for call, seed in enumerate(seeds):
            rng = self.device.generator(seed % (1 << 62) + 1)
            chosen = families.in_call(family, places, seeds[0] + call)
            families.apply(family, self.layout.views(batch, call), chosen, rng)

    def _find_places(self, family: str) -> tuple[int, ...]:
        seed = secrets.randbits(62)
        linear = families.is_linear(self.workload.graph)
        if (family == families.INTEGERS and not linear) or (family == families.OVERFLOWING and linear):
            return ()
        free = self._fixed(seed) if family == families.PERMUTED else self._changeable
        if family == families.OVERFLOWING:
            return tuple(place for place in free if self._counts(seed, family, (place,)))
        if not free or self._counts(seed, family, free):
            return free
        alone = tuple(place for place in free if len(free) > 1 and self._counts(seed, family, (place,)))
        return alone if len(alone) < 2 or self._counts(seed, family, alone) else alone[:1]

    @cached_property
    def _changeable(self) -> tuple[int, ...]:
        """Leaves that a family may change."""
        return families.changeable(self.layout.views(self._draw([secrets.randbits(62)]), 0))

    def _fixed(self, seed: int) -> tuple[int, ...]:
        """Leaves that are the same in every draw."""
        batches = (self._draw([seed]), self._draw([secrets.randbits(62)]))
        return families.fixed(*(self.layout.views(batch, 0) for batch in batches))

    def _counts(self, seed: int, family: str, places: tuple[int, ...]) -> bool:
        """Whether the reference takes such inputs and its twin stays finite."""
        batch = self._draw([seed])
        self._change(batch, [seed], family, places)
        try:
            # One after the other: huge results are let go before the twin, which takes most memory, computes.
            return all(finite_share(run(batch, 1)[0]) >= FINITE for run in (self.eager, self.twin))
        except StockFailure as failure:
            if not self.worker.alive:
                self.revive(failure)
            return False

    def _results(self, seat: Seat, command: str, batch: torch.Tensor, calls: int) -> list[list[torch.Tensor]]:
        self._bind(seat)
        reset = (lambda: self._state.write(self._values)) if self.workload.updated_state else None
        return results(seat, batch, calls, command=command, reset=reset)

    def _bind(self, seat: Seat) -> None:
        if self._bound is not seat:
            seat.bind()
            self._bound = seat
