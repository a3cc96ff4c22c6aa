"""One NVIDIA GPU, as the judge needs to know it."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Literal

import torch

from kernelskill.errors import WorkerError
from kernelskill.evaluation.channel import Lent
from kernelskill.evaluation.cuda.clocks import Clocks
from kernelskill.evaluation.cuda.lease import Lease, uuid_of
from kernelskill.evaluation.cuda.slots import WAYS, try_way
from kernelskill.evaluation.device import Use
from kernelskill.evaluation.process import Worker, WorkerFailure
from kernelskill.evaluation.rounds import UNTRUSTED
from kernelskill.evaluation.worker.driver import DriverError
from kernelskill.records import Status

if TYPE_CHECKING:
    from kernelskill.evaluation.rounds import Measured
    from kernelskill.records import Workload

SLOT_BYTES = 4 << 30
CONTEXT_BYTES = 700 << 20
"""Memory of the device that a process takes before it computes anything, about."""
TWIN_COPIES = 6
"""Times what a call moves that its float64 twin and the copies of its results may take, about."""
CACHES = 4
"""Times the second-level cache that a burst must move to push its own inputs out before they are read."""
GRAPH_BYTES = 4 << 30
"""Size of a call's inputs and outputs from which a graph with copies of its own is not held any more."""
CLOCKS_RATIO, CLOCKS_MS = 1.5, 0.2
"""How far the judge's clock may be above the worker's before that is told."""
PLENTY = 0.5
"""Share of the device's memory from which on nobody needs what is kept for later."""
SHARED, SHARED_S, LINGERS_S = 1.5, 3e-4, 1.0
"""How much longer one of the judge's products takes where others have part in the GPU, as a factor and in seconds; and
how long it is waited for that they have not."""
ALL_BACK = 0.9
"""Share of the device's memory from which nothing large is still being given back."""
RETURNS, RETURN_S = 10, 0.1
"""How many times in a row, and how long each time, free memory may stay the same before nothing more is expected."""
ROUSED_S, ROUSED_SIDE = 1.5e-3, 4096
"""How long the GPU is kept at work before a burst, about, and the side of the products that do it."""
SHORTER = 0.9
"""Share of the ready result's burst below which a burst cannot have done what every burst does."""


class Cuda:
    """A GPU.

    Args:
        index: as torch counts them in this process.
        progress: told in a few words what is waited for.

    Raises:
        WorkerError: there is no such GPU.
    """

    name: Literal["cpu", "cuda"] = "cuda"
    arms: tuple[str, ...] = ("eager", "compile", "graph", "compile+graph")
    slot_bytes = SLOT_BYTES
    most_calls = 128
    burst_s = 0.005
    timed_s = 0.05
    promotion_sets = 4
    set_rounds = 5
    brief_ms = 0.05
    limits_memory = False

    def __init__(self, index: int = 0, progress: Callable[[str], None] = lambda _: None) -> None:
        if not torch.cuda.is_available() or index >= torch.cuda.device_count():
            raise WorkerError(
                f"no GPU {index}: torch sees {torch.cuda.device_count()}; see: kernelskill doctor"
            )
        self.index = index
        self.enter()
        self.properties = torch.cuda.get_device_properties(index)
        self.uuid = uuid_of(index)
        self.clocks = Clocks(self.uuid)
        self.way = ""
        """How memory gets to workers; a key of `slots.WAYS`, found with the first worker."""
        self.passed_over: tuple[str, ...] = ()
        self._lease = Lease(self.uuid, progress)
        self._shared: dict[str, Lent] = {}
        self._work = torch.empty(0)
        self._work_s = 0.0
        self._flushed: torch.Tensor | None = None
        self._reserved = {"inputs": 0, "outputs": 0}
        self._settled = 0
        """What `free_bytes` told last; 0: nothing yet."""

    def enter(self) -> None:
        """Each thread has a device of its own, the first one until it is told otherwise."""
        torch.cuda.set_device(self.index)

    def meet(self, worker: Worker) -> None:
        """Try the ways of sharing memory with a first worker, best first.

        Raises:
            WorkerError: none works, or the worker died.
        """
        if self.way:
            return
        failed: list[str] = []
        for way in WAYS:
            reason = try_way(worker, way)
            if not reason:
                self.way = way
                self.passed_over = tuple(failed)
                return
            failed.append(f"no {way} memory: {reason}")
        raise WorkerError(f"workers cannot be lent any memory of the GPU: {'; '.join(failed)}")

    def slot(self, nbytes: int) -> Lent:
        """An allocation of its own."""
        self.enter()
        if not self.way:
            raise WorkerError("how memory is shared has not been tried with a worker yet")
        self.trim()
        try:
            return WAYS[self.way](nbytes)
        except DriverError as error:
            free = torch.cuda.mem_get_info()[0]
            raise WorkerError(
                f"no room for {nbytes / 1e9:.2f} GB on the GPU ({free / 1e9:.2f} GB are free): {error}"
            ) from error

    def lend(self, nbytes: int, use: Use, *, trusted: bool) -> Lent:
        """Its own for a candidate, whose late kernels might write; one for all workers of ours."""
        if not trusted:
            return self.slot(nbytes)
        known = self._shared.get(use)
        if known is None or known.nbytes < nbytes:
            # Seats that have the smaller one keep its memory alive as long as they need it.
            if known is not None:
                known.close()
            self._shared[use] = known = self.slot(max(nbytes, self._reserved[use]))
        return known

    def reserve(self, inputs: int, outputs: int) -> None:
        """Make the shared memory large enough from the start."""
        self._reserved = {"inputs": inputs, "outputs": outputs}

    def give_back(self, slot: Lent) -> None:
        """Free it, unless others share it."""
        if all(slot is not shared for shared in self._shared.values()):
            slot.close()

    def chill(self, moved: int) -> None:
        """Push inputs that were just written out of the cache, so that every call reads its own from memory.

        The judge does it, between the reveal and the first call: a worker could spare the time.
        """
        size = flush_bytes(moved, int(getattr(self.properties, "L2_cache_size", 0)))
        if size:
            if self._flushed is None:
                self._flushed = torch.empty(size, dtype=torch.uint8, device="cuda")
            self._flushed.zero_()

    def private(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in the judge's own memory on the GPU, with the same strides."""
        copy = tensor.to("cuda", copy=True)
        self.settle()  # a worker may overwrite what was copied from as soon as it is asked for something
        return copy

    def settle(self) -> None:
        """Wait until all that the judge asked of the device is done."""
        torch.cuda.synchronize(self.index)

    def rouse(self) -> None:
        """Work a while, so that every burst begins at the clocks of a busy GPU, whatever came before it.

        Between bursts a GPU idles for milliseconds and slows down; a short burst would be over before it is fast again.
        """
        self._know_work()
        for _ in range(max(1, round(ROUSED_S / self._work_s))):
            torch.mm(self._work, self._work)

    def lingering_s(self) -> float:
        """Seconds until the GPU is the judge's alone, now that a worker has been stopped; `LINGERS_S` at most.

        A kernel that a stopped worker has left behind shares the GPU with whoever is timed next. Beside other judges
        nobody is timed, and nothing can be told: 0.
        """
        if self._lease.hold != "alone":
            return 0.0
        self._know_work()
        self.settle()
        began = time.perf_counter()
        while True:
            took = self._took_s()
            waited = time.perf_counter() - began - took
            if took <= SHARED * self._work_s + SHARED_S or waited > LINGERS_S:
                return max(0.0, waited)

    def _know_work(self) -> None:
        if not self._work.numel():
            self._work = torch.ones(ROUSED_SIDE, ROUSED_SIDE, dtype=torch.float16, device="cuda")
            self._work_s = min(self._took_s() for _ in range(10))

    def _took_s(self) -> float:
        """Seconds of one of its own products, as long as others have no part in the GPU."""
        began = time.perf_counter()
        torch.mm(self._work, self._work)
        self.settle()
        return time.perf_counter() - began

    def trim(self) -> None:
        """Give what torch's allocator keeps back, so that workers find it, unless there is plenty for all."""
        free, total = torch.cuda.mem_get_info()
        if free < PLENTY * total:
            torch.cuda.empty_cache()

    def generator(self, seed: int) -> torch.Generator:
        """Random numbers on the GPU."""
        return torch.Generator(device="cuda").manual_seed(seed)

    def free_bytes(self) -> int:
        """Device memory that nobody has, once what killed workers held has come back.

        What others on the device hold does not come back: as much as there was the last time is not waited for.
        """
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        waited = 0
        while free < ALL_BACK * (self._settled or total) and waited < RETURNS:
            time.sleep(RETURN_S)
            before, free = free, torch.cuda.mem_get_info()[0]
            waited = 0 if free > before else waited + 1
        self._settled = int(free)
        return self._settled

    def is_crowded(self, moved: int) -> bool:
        """Whether a twin's values, twice as wide and several of them, may not fit into what is free."""
        if TWIN_COPIES * moved <= torch.cuda.mem_get_info()[0]:
            return False
        torch.cuda.empty_cache()
        return TWIN_COPIES * moved > torch.cuda.mem_get_info()[0]

    def worker_bytes(self, moved: int) -> int:
        """A context, and results and copies of the worker's own."""
        return CONTEXT_BYTES + 2 * moved

    def unavailable(self, workload: Workload) -> dict[str, str]:
        """Graphs keep copies of inputs and outputs, which huge ones leave no room for."""
        moved = sum(spec.nbytes for spec in (*workload.inputs, *workload.outputs))
        if moved <= GRAPH_BYTES:
            return {}
        reason = (
            f"one call moves {moved / 1e9:.1f} GB: a graph with copies of them does not fit beside the others"
        )
        return {"graph": reason, "compile+graph": reason}

    @contextlib.contextmanager
    def lease(self, *, huge: bool = False) -> Iterator[None]:
        """Part in the GPU, while no judge of this machine times on it; all of it for huge calls.

        Raises:
            WorkerError: its memory did not suffice for the judge's own copies and comparisons.
        """
        self.enter()
        with self._lease.alone() if huge else self._lease.shared():
            try:
                yield
            except torch.OutOfMemoryError as error:
                first = str(error).splitlines()[0]
                traceback.clear_frames(error.__traceback__)  # they hold what did not fit
                raise WorkerError(
                    f"judging needs more memory than the GPU has; use smaller inputs: {first}"
                ) from error

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """The GPU to oneself among the judges of this machine."""
        return self._lease.alone()

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """Others may have the GPU meanwhile."""
        return self._lease.lent()

    def give_way(self) -> None:
        """Let those who wait to be alone go first."""
        self._lease.give_way()

    def honest(self, measured: Measured, arm: str, threads: int) -> None:
        """Whether a burst took at least as long as the ready result's, which only copies as all do, and left nothing.

        Where its own clock is far behind the judge's, that is flagged.

        Raises:
            WorkerFailure: it took less, or the GPU went on working for it, longer than it did for stock arms.
        """
        stock = [values for other, values in measured.late.items() if other not in UNTRUSTED]
        pairs = zip(measured.late[arm], *stock, strict=True)
        measured.left_nothing(arm, median(mine - max(others, default=0.0) for mine, *others in pairs))
        mine, least = median(measured.wall[arm]), median(measured.null_wall)
        if mine < SHORTER * least:
            detail = (
                f"its bursts take {mine:.3f} ms a call; copying inputs and outputs alone takes {least:.3f} ms"
            )
            raise WorkerFailure(Status.INTEGRITY, detail, "only the runner may copy results")
        seen, said = mine - least, median(measured.worker[arm]) - median(measured.null_worker)
        if seen > CLOCKS_RATIO * said + CLOCKS_MS:
            measured.flags.add(
                f"its own clock says {max(said, 0.0):.3f} ms a call, the judge's {seen:.3f} ms, which counts"
            )

    def words(self) -> tuple[str, ...]:
        """How memory travels, and what could not be watched."""
        found = [f"{self.way} memory"] if self.way else []
        if self.way == "host":
            found += self.passed_over
        if self.clocks.problem:
            found.append(f"throttling is not watched: {self.clocks.problem}")
        return tuple(found)

    def close(self) -> None:
        """Give shared memory back."""
        for slot in self._shared.values():
            with contextlib.suppress(OSError):
                slot.close()
        self._shared.clear()
        torch.cuda.empty_cache()


def flush_bytes(moved: int, cache: int) -> int:
    """Bytes to overwrite before a burst: none where the calls' own data push each other out of the cache.

    Args:
        moved: bytes of inputs and outputs of a whole burst.
        cache: bytes of the second-level cache; 0: not known, taken for 64 MiB.
    """
    size = cache or 64 << 20
    return 0 if moved >= CACHES * size else 2 * size
