"""The stock arms of a task: kept from screen to screen, or fresh in process sets for a promotion."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import torch

from kernelskill.errors import KernelSkillError, WorkerError
from kernelskill.evaluation.ahead import Ahead
from kernelskill.evaluation.arms import Table
from kernelskill.evaluation.process import Worker, WorkerFailure
from kernelskill.evaluation.reference import ReferenceSide
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.records import Candidate

NEEDED = ("eager", "twin", "null")
"""Arms without which nothing can be timed; "twin" is a second eager."""


class Stock:
    """Workers of ours, started when they are needed and started anew when they are lost."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.seats: dict[str, Seat] = {}
        self._side: ReferenceSide | None = None
        self._base: tuple[str, Seat] | None = None
        self._spare: Worker | None = None
        self._ahead = Ahead(table)

    def candidate(self, candidate: Candidate) -> Seat:
        """A candidate in a fresh worker, which may have been started beforehand.

        Raises:
            WorkerFailure: it cannot be built; its verdict.
        """
        self.await_spare()
        spare, self._spare = self._spare, None
        return self.table.candidate(candidate, spare)

    def start_spare(self) -> None:
        """Start the next candidate's worker, which knows of no candidate yet; call when nothing is being timed.

        Only on a GPU, where its context takes long to come up.
        """
        if self._spare is None and self.table.device.name == "cuda":
            self._spare = self.table.candidate_worker()

    def await_spare(self) -> None:
        """Wait until the spare is up, so that its start disturbs no timing; one that does not come up is given up."""
        if self._spare is None:
            return
        try:
            self._spare.ready()
        except WorkerError:  # this candidate may have taken what it needs
            self._drop_spare()
            return
        if not self._spare.alive:
            self._drop_spare()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    @property
    def side(self) -> ReferenceSide:
        """The reference."""
        if self._side is not None and not self._side.worker.alive:
            self._side.close()
            self._side = None
        if self._side is None:
            self._side = self.table.reference()
            self._side.make_room = self.make_room
        return self._side

    def make_room(self) -> None:
        """Where the float64 twin may not fit beside the arms, have them give back what they keep for later."""
        table = self.table
        table.device.trim()
        if table.device.is_crowded(table.calls * table.moved):
            for seat in self.seats.values():
                if seat.worker.alive:
                    seat.trim()

    def live(self, names: Sequence[str]) -> dict[str, Seat]:
        """These arms, still warm from the last screen where they are.

        Raises:
            WorkerError: one that ran before does not start.
        """
        missing = [name for name in names if name not in self.seats or not self.seats[name].worker.alive]
        for name in missing:
            if name in self.seats:
                self.seats.pop(name).close()
        if missing:
            started, failed = self.start(missing)
            self.seats.update(started)
            if failed:
                raise WorkerError(f"a stock arm that ran before does not start: {failed}")
        return {name: self.seats[name] for name in names}

    def sets(self, names: Sequence[str], wanted: int, candidate: Candidate) -> list[dict[str, Seat]]:
        """Fresh process sets started side by side, as many as memory holds; processes of the others are loaded ahead.

        Args:
            names: arms, "candidate" among them.
            wanted: how many sets, at most.
            candidate: who that is.

        Raises:
            WorkerError: an arm that ran before does not start.
            WorkerFailure: the candidate does not; its verdict.
        """
        count = self.table.sets_that_fit(len(names), wanted)
        if count < wanted:
            self._ahead.load(names, wanted)
        everyone = [f"{name}#{number}" for number in range(count) for name in names]
        started, failed = self.start(everyone, candidate)
        if failed:
            _close(started.values())
            raise WorkerError(f"a stock arm that ran before does not start: {failed}")
        return [{name: started[f"{name}#{number}"] for name in names} for number in range(count)]

    def start(
        self, names: Sequence[str], candidate: Candidate | None = None
    ) -> tuple[dict[str, Seat], dict[str, str]]:
        """Warm seats of several arms ("eager", or "eager#2"), started side by side, and why others could not be had.

        Raises:
            WorkerError: one of those that are needed does not start.
            WorkerFailure: the candidate does not; its verdict.
        """
        side = self.side
        first = side.draw([secrets.randbits(62) for _ in range(side.layout.count)])

        def start(name: str) -> Seat:
            arm = name.split("#")[0]
            if candidate is not None and arm == "candidate":
                return self._warm(candidate, first)
            arm = "eager" if arm == "twin" else arm
            return self.table.stock(arm, side.initial, first, self._ahead.stock(arm))

        seats: dict[str, Seat] = {}
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(max_workers=max(2, self.table.threads)) as starters:
            started = {name: starters.submit(start, name) for name in names}
        for name, future in started.items():
            error = future.exception()
            if error is None:
                seats[name] = future.result()
            elif isinstance(error, KernelSkillError):
                failed[name] = error.line if isinstance(error, StockFailure) else str(error)[:300]
            else:
                _close(f.result() for f in started.values() if f.exception() is None)
                raise error
        lost = [name for name in failed if name.split("#")[0] in NEEDED]
        if lost:
            _close(seats.values())
            raise WorkerError(f"the {lost[0]} arm does not start: {failed[lost[0]]}")
        return seats, failed

    def _warm(self, candidate: Candidate, first: torch.Tensor) -> Seat:
        """A candidate whose kernels are built; it rests until it is asked for more."""
        seat = self.table.candidate(candidate, self._ahead.candidate())
        try:
            seat.give_state(self.side.initial)
            seat.burst(first, calls=1, rest=True)
        except BaseException:  # the worker must not outlive whatever ended its first call
            seat.close()
            raise
        return seat

    def base(self, candidate: Candidate) -> Seat | None:
        """The base in a worker of its own, kept from screen to screen; None if it does not start any more."""
        if self._base is None or self._base[0] != candidate.id or not self._base[1].worker.alive:
            self.drop_base()
            with suppress(WorkerFailure):
                seat = self.table.candidate(candidate)
                self._base = (candidate.id, seat)
                seat.give_state(self.side.initial)
        return self._base[1] if self._base is not None and self._base[1].worker.alive else None

    def drop_base(self) -> None:
        """End the base's worker."""
        if self._base is not None:
            self._base[1].close()
            self._base = None

    def release(self) -> None:
        """End all arms, but not the reference."""
        _close(self.seats.values())
        self.seats.clear()
        self.drop_base()
        self._drop_spare()

    def close_sets(self) -> None:
        """End all arms, and those that were loaded for further sets."""
        self.release()
        self._ahead.close()

    def close(self) -> None:
        """End every worker."""
        self.close_sets()
        if self._side is not None:
            self._side.close()
            self._side = None


def _close(seats: Iterable[Seat]) -> None:
    for seat in seats:
        seat.close()
