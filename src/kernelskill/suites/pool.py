"""Who works on the tasks: processes of this machine, a seat or more per GPU.

A GPU's memory is shared by admission: a task starts beside others only where all of them fit by what is known of
their size. Large ones go first, and smaller ones fill what room they leave. One that ran short of memory beside others
is done again alone, and only that counts.
"""

from __future__ import annotations

import select
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Protocol

from kernelskill.records import TaskOutcome, TaskResult
from kernelskill.suites.cores import Cores
from kernelskill.suites.job import LOG, Job, start_over
from kernelskill.suites.place import Place
from kernelskill.suites.process import TaskProcess

TRIES = 2
"""Processes that a task may lose before it is given up."""


class Pool(Protocol):
    """Works on jobs."""

    name: str
    """For the record: "local", or "ray" with its address."""
    devices: tuple[str, ...]
    """What it works on."""
    places: int
    """Tasks at a time."""

    def results(self, jobs: Sequence[Job], home: Path) -> Generator[TaskResult, None, None]:
        """The line of every job, each once, as they come. Closing the iterator ends what still runs.

        Args:
            jobs: in the order of preference; each laid into its folder (`job.stage`).
            home: folder of the task folders, by key.
        """
        ...

    def close(self) -> None:
        """Let go of what it works on."""
        ...


class Seat:
    """A device, or the processor, and the tasks that run on it now.

    Args:
        gpu: index of the GPU; None for the processor.
        places: tasks at a time.
        memory_bytes: of the device; None where that doesn't limit it.
    """

    def __init__(self, gpu: int | None = None, places: int = 1, memory_bytes: int | None = None) -> None:
        self.gpu = gpu
        self.places = places
        self.memory_bytes = memory_bytes
        self.running: list[TaskProcess] = []
        self.idle: list[Place] = []
        """Processes that wait for their next task."""

    def takes(self, job: Job) -> bool:
        """Whether a task may start here now."""
        if not self.running:
            return True
        if job.alone or len(self.running) >= self.places or any(item.alone for item in self.running):
            return False
        if self.memory_bytes is None:
            return True
        taken = sum(self._needs(item.job) for item in self.running)
        return taken + self._needs(job) <= self.memory_bytes

    def is_alone(self, job: Job) -> bool:
        """Whether a task that starts here now has the device to itself to its end."""
        return job.alone or self.places == 1

    def _needs(self, job: Job) -> int:
        assert self.memory_bytes is not None
        return job.needs_bytes if job.needs_bytes is not None else self.memory_bytes // self.places


class LocalPool:
    """Processes of this machine.

    Args:
        seats: devices to work on.
        cores: gives every task cores of its own; None lets all use all.
    """

    name = "local"

    def __init__(self, seats: Sequence[Seat], cores: Cores | None = None) -> None:
        self.seats = list(seats)
        self._cores = cores
        self.devices = tuple("cpu" if seat.gpu is None else f"gpu {seat.gpu}" for seat in seats)
        self.places = sum(seat.places for seat in seats)
        self._lost: dict[str, int] = {}
        self._spent: dict[str, float] = {}

    def results(self, jobs: Sequence[Job], home: Path) -> Generator[TaskResult, None, None]:
        """The line of every job, each once, as they come."""
        waiting = list(jobs)
        try:
            while waiting or any(seat.running for seat in self.seats):
                self._admit(waiting, home)
                self._wait()
                for seat in self.seats:
                    for process in [item for item in seat.running if item.ended or item.left_s <= 0]:
                        seat.running.remove(process)
                        again = self._settle(process, seat)
                        if isinstance(again, TaskResult):
                            yield again
                        else:
                            waiting.insert(0, again)
        finally:
            for seat in self.seats:
                for place in [*(item.place for item in seat.running), *seat.idle]:
                    self._end(place)
                seat.running.clear()
                seat.idle.clear()

    def close(self) -> None:
        """Nothing is held between jobs."""

    def _admit(self, waiting: list[Job], home: Path) -> None:
        """Start what fits, largest first and emptiest device first; what doesn't fit is passed over until it does."""
        for job in sorted(waiting, key=lambda item: (not item.alone, -(item.needs_bytes or 0))):
            free = [seat for seat in self.seats if seat.takes(job)]
            if not free:
                continue
            seat = min(free, key=lambda item: len(item.running))
            folder = home / job.task.key
            place = self._place(seat, job, home, folder / LOG)
            seat.running.append(TaskProcess(job, folder, place, seat.is_alone(job)))
            waiting.remove(job)

    def _place(self, seat: Seat, job: Job, home: Path, log: Path) -> Place:
        """A process for a task: one that is idle, or a new one."""
        while job.alone and seat.idle:  # what they keep of the device's memory may be what it lacks
            self._end(seat.idle.pop())
        if seat.idle:
            return seat.idle.pop()
        return Place(home, log, seat.gpu, self._cores.take() if self._cores is not None else ())

    def _end(self, place: Place) -> None:
        place.end()
        if self._cores is not None:
            self._cores.give_back(place.cores)

    def _wait(self) -> None:
        """Until a process ends, or has taken too long."""
        running = [item for seat in self.seats for item in seat.running]
        poll = select.poll()
        for item in running:
            poll.register(item.place.fd, select.POLLIN)
        soonest = min((item.left_s for item in running), default=0.0)
        poll.poll(max(0.0, soonest) * 1e3 + 1)

    def _settle(self, process: TaskProcess, seat: Seat) -> TaskResult | Job:
        """The line of a task that has ended, or its job to be done again."""
        result, itself = process.collect()
        if itself and result.outcome is not TaskOutcome.FAILED and not result.starved and process.place.alive:
            seat.idle.append(process.place)
        else:  # whatever went wrong must not reach the next task
            self._end(process.place)
        key = process.job.task.key
        self._spent[key] = self._spent.get(key, 0.0) + result.wall_s
        if result.starved and not process.alone:
            return start_over(process.job, process.folder)
        if not itself:
            self._lost[key] = self._lost.get(key, 0) + 1
            if self._lost[key] < TRIES:
                return process.job
        return result.model_copy(update={"starved": False, "wall_s": round(self._spent[key], 3)})
