"""A worker at the judge's table: its own slots, one way to run a batch of calls, one clock.

A burst: the clock starts; the judge copies the batch from its private memory into the worker's input slot, which the
worker can only read; asks it to run; hears that it is done; the clock stops. A candidate's processes are then frozen
before the outputs are copied into private memory, so that nothing written later counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import mean

import torch

from kernelskill.evaluation.channel import Slot
from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Worker
from kernelskill.records import Json, TensorSpec

POISON = 0xA5
"""Byte that outputs hold before a call: a large negative number in every floating type, never a plausible result."""


@dataclass(frozen=True)
class Burst:
    """What one burst gave."""

    wall_ms: float
    """From the reveal to the answer, per call."""
    worker_ms: float
    """The worker's own mean per call (not trusted)."""
    outputs: torch.Tensor
    """Private copy of the output bytes."""
    flags: tuple[str, ...]
    threads: int


class Seat:
    """A worker with slots for `count` calls."""

    def __init__(
        self,
        worker: Worker,
        inputs: Layout,
        outputs: Layout,
        inputs_tree: Json,
        outputs_tree: Json,
        *,
        frozen: bool,
        seconds: float,
    ) -> None:
        self.worker = worker
        self.inputs = inputs
        self.outputs = outputs
        self._freeze = frozen
        self.seconds = seconds
        """Longest time for one command."""
        self._input_slot, self._output_slot = Slot(inputs.nbytes), Slot(outputs.nbytes)
        self._input = torch.frombuffer(self._input_slot.view(), dtype=torch.uint8)
        self._output = torch.frombuffer(self._output_slot.view(), dtype=torch.uint8)
        self._output.fill_(POISON)
        reads = worker.give(self._input_slot, writable=False)
        writes = worker.give(self._output_slot, writable=True)
        self._bind = {
            "inputs": inputs.bound(reads),
            "outputs": outputs.bound(writes),
            "tree": inputs_tree,
            "outputs_tree": outputs_tree,
            "count": inputs.count,
        }
        self.bind()

    def bind(self) -> None:
        """Bind the worker's calls to this seat's slots (again, after another seat of the same worker)."""
        self.worker.call("bind", timeout_s=self.seconds, **self._bind)

    def burst(self, batch: torch.Tensor, *, command: str = "run", calls: int | None = None) -> Burst:
        """Run the batch once.

        Raises:
            WorkerFailure: the worker failed; for a candidate, that is its verdict.
        """
        count = calls if calls is not None else self.inputs.count
        used = count * self.inputs.step
        self._output.fill_(POISON)
        began = time.perf_counter()
        self._input[:used].copy_(batch[:used])
        reply = self.worker.call(command, timeout_s=self.seconds, order=list(range(count)))
        wall = time.perf_counter() - began
        if self._freeze:
            self.worker.freeze()
        outputs = self._output.clone()
        if self._freeze:
            self.worker.thaw()
        times = [float(item) for item in reply.get("times_us", [])] or [1e6 * wall / count]
        return Burst(
            wall_ms=1e3 * wall / count,
            worker_ms=mean(times) / 1e3,
            outputs=outputs,
            flags=tuple(str(flag)[:200] for flag in reply.get("flags", []))[:8],
            threads=int(reply.get("threads", 0)),
        )

    def close(self) -> None:
        """Kill the worker and give the memory back."""
        self.worker.close()
        self._input = self._output = torch.empty(0, dtype=torch.uint8)
        self._input_slot.close()
        self._output_slot.close()


def as_float64(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """The layouts that the float64 twin writes: floats widened, everything else as it is."""
    wide = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
    return tuple(spec.model_copy(update={"dtype": wide.get(spec.dtype, spec.dtype)}) for spec in specs)
