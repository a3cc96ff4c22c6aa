"""What differs between devices, behind one seam. The CPU's is here; a GPU's in `cuda/device.py`."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from kernelskill.evaluation.channel import Lent, Slot

if TYPE_CHECKING:
    from kernelskill.evaluation.process import Worker
    from kernelskill.evaluation.rounds import Measured
    from kernelskill.records import Workload

Use = Literal["inputs", "outputs"]
SLOT_BYTES = 96 << 20
"""Memory that the calls of one seat may take on the CPU, inputs and outputs together."""
WORKER_BYTES = 700 << 20
"""Memory that a stock arm with torch (and the compiler) loaded takes, about."""


class Device(Protocol):
    """Where workers compute, as the judge needs to know it."""

    name: Literal["cpu", "cuda"]
    arms: tuple[str, ...]
    """Stock arms that are timed, eager first."""
    slot_bytes: int
    """Memory that the calls of one seat may take, inputs and outputs together."""
    most_calls: int
    """Calls of a burst at most."""
    burst_s: float
    """Seconds that a burst of eager takes at most, about: enough for what a burst costs beside its calls to vanish."""
    timed_s: float
    """Seconds that one arm is timed for in a screen, about: more where times scatter more."""
    promotion_sets: int
    """Process sets of a promotion: likewise."""
    set_rounds: int
    """Rounds of each of them at least: what is unknown differs between the sets, not within."""
    brief_ms: float
    """Time of a stock call below which calls are ranked one at a time; 0: never."""
    limits_memory: bool
    """Whether workers live with a limit on their address space."""

    def slot(self, nbytes: int) -> Lent:
        """New memory to lend, bytes."""
        ...

    def lend(self, nbytes: int, use: Use, *, trusted: bool) -> Lent:
        """Memory for a seat; workers of ours may be given the same."""
        ...

    def reserve(self, inputs: int, outputs: int) -> None:
        """Say how much workers of ours will need at most, bytes, before they are lent anything."""
        ...

    def give_back(self, slot: Lent) -> None:
        """A seat needs its memory no more."""
        ...

    def private(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in the judge's own memory on this device."""
        ...

    def settle(self) -> None:
        """Wait until all that the judge asked of the device is done."""
        ...

    def trim(self) -> None:
        """Give memory that is only kept for later back."""
        ...

    def generator(self, seed: int) -> torch.Generator:
        """Random numbers on this device."""
        ...

    def free_bytes(self) -> int:
        """Memory that can be had now."""
        ...

    def is_crowded(self, moved: int) -> bool:
        """Whether memory may not suffice for a float64 twin of calls that move so many bytes."""
        ...

    def worker_bytes(self, moved: int) -> int:
        """Memory of the device that a stock arm takes whose burst moves so many bytes."""
        ...

    def unavailable(self, workload: Workload) -> dict[str, str]:
        """Stock arms that cannot be had for this workload, and why."""
        ...

    def enter(self) -> None:
        """Have this thread work on the device."""
        ...

    def meet(self, worker: Worker) -> None:
        """A first worker is up: find out how memory gets to it."""
        ...

    def lease(self, *, huge: bool = False) -> AbstractContextManager[None]:
        """Compute on the device, beside other judges that do; nobody is timed meanwhile.

        Huge calls have it to themselves: beside one of theirs, a thousand small ones of others each wait their turn.
        """
        ...

    def alone(self) -> AbstractContextManager[None]:
        """The device to oneself, while something is timed."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Within a lease: others may time meanwhile, as processes start and kernels are built."""
        ...

    def give_way(self) -> None:
        """Within a lease: let those who wait to be alone go first."""
        ...

    def honest(self, measured: Measured, arm: str, threads: int) -> None:
        """Whether an arm worked only while it was asked to.

        Raises:
            WorkerFailure: it did not.
        """
        ...

    def words(self) -> tuple[str, ...]:
        """What should stand beside every verdict reached on this device."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Cpu:
    """The processor, and host memory."""

    name: Literal["cpu", "cuda"] = "cpu"
    arms: tuple[str, ...] = ("eager", "compile")
    slot_bytes = SLOT_BYTES
    most_calls = 32
    burst_s = 0.04
    timed_s = 0.5
    promotion_sets = 6
    set_rounds = 9
    brief_ms = 0.0
    limits_memory = True

    def slot(self, nbytes: int) -> Lent:
        """Shared memory."""
        return Slot(nbytes)

    def lend(self, nbytes: int, use: Use, *, trusted: bool) -> Lent:
        """Every seat has its own."""
        return Slot(nbytes)

    def reserve(self, inputs: int, outputs: int) -> None:
        """Nothing: every seat has its own."""

    def give_back(self, slot: Lent) -> None:
        """Free it."""
        slot.close()

    def private(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy."""
        return tensor.clone()

    def settle(self) -> None:
        """Nothing runs on behind one's back."""

    def trim(self) -> None:
        """Nothing is kept."""

    def generator(self, seed: int) -> torch.Generator:
        """Random numbers on the CPU."""
        return torch.Generator().manual_seed(seed)

    def free_bytes(self) -> int:
        """Memory that can be had now, page cache included."""
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123  one line of a kernel file
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

    def is_crowded(self, moved: int) -> bool:
        """No: workers keep no memory for later here."""
        return False

    def worker_bytes(self, moved: int) -> int:
        """A process with torch, and its slots."""
        return WORKER_BYTES + moved

    def unavailable(self, workload: Workload) -> dict[str, str]:
        """Those that need a GPU."""
        return {"graph": "CUDA graphs need a GPU", "compile+graph": "CUDA graphs need a GPU"}

    def enter(self) -> None:
        """Every thread does."""

    def meet(self, worker: Worker) -> None:
        """Nothing to find out."""

    def lease(self, *, huge: bool = False) -> AbstractContextManager[None]:
        """None: others on the machine are seen by their effect."""
        return nullcontext()

    def alone(self) -> AbstractContextManager[None]:
        """Likewise."""
        return nullcontext()

    def aside(self) -> AbstractContextManager[None]:
        """Nothing to lend."""
        return nullcontext()

    def give_way(self) -> None:
        """Nobody waits."""

    def honest(self, measured: Measured, arm: str, threads: int) -> None:
        """By processor time."""
        measured.honest(arm, threads)

    def words(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def close(self) -> None:
        """Nothing to give back."""


CPU = Cpu()
