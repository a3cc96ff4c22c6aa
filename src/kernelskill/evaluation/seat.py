"""A worker at the judge's table: its own slots, one way to run a batch of calls, one clock.

A burst: the clock starts; the judge copies the batch from its private memory into the worker's input slot, which the
worker can only read; asks it to run; hears that it is done; the clock stops. Then the worker's processes are stopped,
and only then are the outputs copied into private memory, so that nothing written later counts. Processor time that
was spent between the answer and the stop is added to the worker's time.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch

from kernelskill.evaluation import contention, replies
from kernelskill.evaluation.channel import Lent
from kernelskill.evaluation.device import CPU, Device
from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Worker
from kernelskill.evaluation.state import State
from kernelskill.records import Json, TensorSpec

POISON = 0xFF
"""Byte that outputs hold before a call: NaN in every floating type, -1 in integers, never a valid boolean."""
FIRST_CALL_S = 60.0
"""Longest time for a worker's first burst, in which it may still build kernels."""


@dataclass(frozen=True)
class Burst:
    """What one burst gave."""

    wall_ms: float
    """From the reveal to the answer, with what was computed after the answer, per call."""
    worker_ms: float
    """The worker's own mean per call (not trusted)."""
    outputs: torch.Tensor
    """Private copy of the output bytes."""
    late_ms: float = 0.0
    """Processor time between the answer and the stop, whole burst."""
    processors: float = 0.0
    """Processors that it kept busy on average, by the kernel's count."""
    slowdown: float = 1.0
    """By how much waiting for a processor may have lengthened the wall time, at most."""
    flags: tuple[str, ...] = ()
    clock_mhz: float = 0.0
    """Clock of the device right after the burst; 0 where it was not read."""
    throttled: str = ""
    """Why the device ran slower than it should ("" = it did not, or nothing is known)."""


@dataclass(frozen=True)
class Usage:
    """Seconds that a worker's threads ran, and were ready but did not run."""

    computed: float = 0.0
    waited: float = 0.0


class Seat:
    """A worker with slots for `count` calls.

    Args:
        worker: who sits here.
        inputs, outputs: how the leaves of the calls lie in the slots.
        inputs_tree, outputs_tree: nesting of arguments and result.
        seconds: longest time for one command.
        watched: stop the worker after each burst, and count its processor time.
        first_call_s: longest time for the first burst.
        device: whose memory the slots are of.
        trusted: whether a worker of ours sits here; on a GPU those share their slots, one bursting at a time.
    """

    def __init__(
        self,
        worker: Worker,
        inputs: Layout,
        outputs: Layout,
        inputs_tree: Json,
        outputs_tree: Json,
        *,
        seconds: float,
        watched: bool = True,
        first_call_s: float = FIRST_CALL_S,
        device: Device = CPU,
        trusted: bool = False,
    ) -> None:
        self.worker = worker
        self.arm = ""
        """Which of the stock arms that share the worker sits here."""
        self.inputs = inputs
        self.outputs = outputs
        self.seconds = seconds
        self.state: State | None = None
        """The worker's parameters and buffers, where it has been given any."""
        self._first_s = max(first_call_s, seconds)
        self._warm = False
        self._watched = watched
        self.device = device
        self._trusted = trusted
        self._slots: list[Lent] = []
        self._input = self._output = torch.empty(0, dtype=torch.uint8)
        try:
            self._slots.append(device.lend(inputs.nbytes, "inputs", trusted=trusted))
            self._slots.append(device.lend(outputs.nbytes, "outputs", trusted=trusted))
            self._input, self._output = (slot.tensor() for slot in self._slots)
            self._output.fill_(POISON)
            self._bind = {
                "inputs": inputs.bound(worker.give(self._slots[0], writable=False)),
                "outputs": outputs.bound(worker.give(self._slots[1], writable=True)),
                "tree": inputs_tree,
                "outputs_tree": outputs_tree,
                "count": inputs.count,
            }
            self.bind()
        except BaseException:  # whatever ended the seating, the memory must not stay behind
            self.close()
            raise

    def bind(self) -> None:
        """Bind the worker's calls to this seat's slots (again, after another seat of the same worker)."""
        self.worker.call("bind", timeout_s=self.seconds, **self._bind)

    def of(self, arm: str) -> Seat:
        """The same worker and slots for another of the arms that are loaded there; it has no state yet."""
        seat = copy.copy(self)
        seat.arm, seat.state, seat._warm = arm, None, False
        return seat

    def warm(self, command: str = "run") -> None:
        """What comes before every burst, so that no candidate can tell by it which ones are timed.

        The state that calls start from is given after it.
        """

    def ready(self, command: str = "run") -> None:
        """As `warm`, and what a device needs before a burst whose time counts."""

    def burst(
        self,
        batch: torch.Tensor,
        *,
        command: str = "run",
        calls: int | None = None,
        rest: bool = False,
        first: int = 0,
    ) -> Burst:
        """Run the first calls of a batch once.

        Args:
            batch: private input bytes.
            command: "run", "null" or "run64".
            calls: how many; default: all that the seat has.
            rest: leave the worker stopped until its next burst, so that it cannot disturb others.
            first: place of the first call among the seat's; results come as if it were 0.

        Raises:
            WorkerFailure: the worker failed; for a candidate, that is its verdict.
        """
        count = calls if calls is not None else self.inputs.count
        used = count * self.inputs.step
        self.wake()
        self._output.fill_(POISON)
        limit = self.seconds if self._warm else self._first_s
        burst = self._timed(batch[:used], command, range(first, first + count), limit, rest=rest)
        self._warm = True
        return burst

    def lay(self, batch: torch.Tensor, calls: int) -> None:
        """Put the inputs of the first calls of a batch into the slot; nothing is asked for."""
        self._inputs(range(calls)).copy_(batch[: calls * self.inputs.step])
        self.device.settle()

    def _timed(self, batch: torch.Tensor, command: str, order: range, limit: float, *, rest: bool) -> Burst:
        count = len(order)
        before = self._usage() if self._watched else Usage()
        began = time.perf_counter()
        self._inputs(order).copy_(batch)
        self.device.settle()
        reply = self._asked(command, order, limit)
        wall = time.perf_counter() - began
        late = self._stop() if self._watched else 0.0
        after = self._usage() if self._watched else Usage()
        outputs = self.device.private(self._outputs(order))
        if self._watched and not rest:
            self.wake()
        times = replies.times_ms(reply, count) if command != "run64" else [1e3 * wall / count]
        computed = max(0.0, after.computed - before.computed)
        return Burst(
            wall_ms=1e3 * (wall + late) / count,
            worker_ms=mean(times),
            outputs=outputs,
            late_ms=1e3 * late,
            processors=computed / (wall + late),
            slowdown=contention.slowdown(after.waited - before.waited, computed),
            flags=replies.flags(reply),
        )

    def _inputs(self, order: range) -> torch.Tensor:
        return self._input[order.start * self.inputs.step : order.stop * self.inputs.step]

    def _outputs(self, order: range) -> torch.Tensor:
        return self._output[order.start * self.outputs.step : order.stop * self.outputs.step]

    def _asked(self, command: str, order: range, limit: float) -> dict[str, Any]:
        whose = {"arm": self.arm} if self.arm else {}
        return self.worker.call(command, timeout_s=limit, order=list(order), **whose)

    def _usage(self) -> Usage:
        pid = self.worker.pid
        return Usage(self.worker.cpu_seconds(), contention.waited_seconds(pid))

    def _stop(self) -> float:
        """Stop the worker; processor seconds that it used since its answer."""
        answered = self.worker.cpu_seconds()
        self.worker.freeze()
        return max(0.0, self.worker.cpu_seconds() - answered)

    def wake(self) -> None:
        """Let a resting worker go on."""
        if self.worker.frozen:
            self.worker.thaw()

    def rest(self) -> None:
        """Stop the worker until its next burst, so that it cannot disturb others."""
        self.worker.freeze()

    def trim(self) -> None:
        """Have a resting worker give back memory of the device that it only keeps for its next burst."""
        resting = self.worker.frozen
        self.wake()
        self.worker.call("trim", timeout_s=self.seconds)
        if resting:
            self.rest()

    def give_state(self, values: dict[str, torch.Tensor]) -> None:
        """Set the worker's parameters and buffers."""
        if self.state is not None:
            self.wake()
            self.state.write(values)

    def close(self) -> None:
        """Kill the worker and give the memory back."""
        self.worker.close()
        if self.state is not None:
            self.state.close()
        self._input = self._output = torch.empty(0, dtype=torch.uint8)
        for slot in self._slots:
            self.device.give_back(slot)
        self._slots.clear()


def results(
    seat: Seat,
    batch: torch.Tensor,
    calls: int,
    *,
    command: str = "run",
    reset: Callable[[], None] | None = None,
) -> list[list[torch.Tensor]]:
    """Untimed results: per call, its output leaves. Which places they have among the seat's calls is drawn by lot.

    Args:
        seat: who computes.
        batch: private input bytes.
        calls: how many of them.
        command: "run" or "run64".
        reset: where a call leaves something behind, puts it back; then every call runs by itself after a reset.
    """

    def place(count: int) -> int:
        return secrets.randbelow(seat.inputs.count - count + 1)

    if reset is None:
        seat.warm()
        burst = seat.burst(batch, command=command, calls=calls, first=place(calls))
        return [seat.outputs.views(burst.outputs, call) for call in range(calls)]
    rows = []
    for call in range(calls):
        seat.warm()
        reset()
        burst = seat.burst(batch[call * seat.inputs.step :], command=command, calls=1, first=place(1))
        rows.append(seat.outputs.views(burst.outputs, 0))
    reset()
    return rows


def as_float64(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """The layouts that the float64 twin writes: floats widened, everything else as it is."""
    wide = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
    return tuple(
        TensorSpec.contiguous(spec.shape, wide.get(spec.dtype, spec.dtype)) if spec.dtype in wide else spec
        for spec in specs
    )
