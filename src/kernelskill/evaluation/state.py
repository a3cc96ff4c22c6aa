"""The judge's copy of parameters and buffers, written into every worker by name."""

from __future__ import annotations

from typing import Any

import torch

from kernelskill.evaluation import replies
from kernelskill.evaluation.device import CPU, Device
from kernelskill.evaluation.layout import Layout
from kernelskill.evaluation.process import Worker
from kernelskill.records import StateSpec, Workload


class State:
    """The state of one worker (of one arm, where several share it), through a slot of its own."""

    def __init__(
        self,
        worker: Worker,
        workload: Workload,
        seconds: float,
        *,
        by_shape: bool,
        device: Device = CPU,
        arm: str = "",
    ) -> None:
        self._arm = arm
        self._device = device
        self._worker = worker
        self._seconds = seconds
        self._by_shape = by_shape
        self.specs: tuple[StateSpec, ...] = tuple(item for item in workload.state if not item.tied_to)
        self._layout = Layout.of([item.spec for item in self.specs], 1)
        self._slot = device.slot(self._layout.nbytes) if self.specs else None
        self._memory = self._slot.tensor() if self._slot else None
        self._number = worker.give(self._slot, writable=True) if self._slot else 0
        self.missing: tuple[str, ...] = ()
        """Names that the worker's model does not have."""

    def read(self) -> dict[str, torch.Tensor]:
        """Private copies of all tensors that the worker has, by name."""
        return self._read("state", self._seconds, write=False, by_shape=self._by_shape)

    def read_twin(self, calls: int) -> dict[str, torch.Tensor]:
        """The same of the reference's float64 twin after so many calls on what lies in the bound slots."""
        return self._read("state64", self._seconds * calls, order=list(range(calls)))

    def _read(self, command: str, seconds: float, **how: Any) -> dict[str, torch.Tensor]:
        if self._memory is None:
            return {}
        self._memory.fill_(0xFF)  # what the worker doesn't write must not look like an answer
        self._device.settle()
        absent = set(self._exchange(command, seconds, **how))
        views = self._layout.views(self._memory, 0)
        return {
            item.path: self._device.private(tensor)
            for item, tensor in zip(self.specs, views, strict=True)
            if item.path not in absent
        }

    def write(self, values: dict[str, torch.Tensor]) -> None:
        """Give the worker's model these values (all names of the state)."""
        if self._memory is None:
            return
        for item, target in zip(self.specs, self._layout.views(self._memory, 0), strict=True):
            target.copy_(values[item.path])
        self._device.settle()
        self.missing = self._exchange("state", self._seconds, write=True, by_shape=self._by_shape)

    def close(self) -> None:
        """Give the memory back."""
        self._memory = None
        if self._slot is not None:
            self._slot.close()

    def _exchange(self, command: str, seconds: float, **how: Any) -> tuple[str, ...]:
        """Names that the worker's model lacks."""
        if not self.specs:
            return ()
        reply = self._worker.call(
            command,
            timeout_s=seconds,
            names=[item.path for item in self.specs],
            slot_ids=[self._number] * len(self.specs),
            specs=[item.spec.model_dump(mode="json") for item in self.specs],
            offsets=list(self._layout.starts),
            **how,
            **({"arm": self._arm} if self._arm else {}),
        )
        return replies.names(reply, "missing")
