"""The stock arms of a task: kept from screen to screen, or fresh in process sets for a promotion."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import torch

from kernelskill.errors import WorkerError
from kernelskill.evaluation.ahead import Ahead
from kernelskill.evaluation.arms import Table
from kernelskill.evaluation.process import Worker, WorkerFailure
from kernelskill.evaluation.reference import ReferenceSide
from kernelskill.evaluation.seat import Seat
from kernelskill.records import Candidate

STARTERS = 4
"""Processes started at a time, at least: most of a start is waiting for the device's driver."""
TWIN = "twin"
"""A second eager, in a process of its own."""


Bench = tuple[dict[str, Seat], dict[str, str]]
"""Seats of the stock arms of one process, and why others could not be had."""


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
        """A candidate in a fresh worker, or one that was started beforehand; it rests until it is asked something.

        Raises:
            WorkerFailure: it cannot be built; its verdict.
        """
        self.await_spare()
        spare, self._spare = self._spare, None
        return self._loaded(candidate, spare)

    def _loaded(self, candidate: Candidate, fresh: Worker | None) -> Seat:
        seat = self.table.candidate(candidate, fresh)
        try:
            seat.rest()
        except BaseException:  # a worker that cannot be stopped must not stay
            seat.close()
            raise
        return seat

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

    def arms(self, names: Sequence[str], base: Candidate | None) -> dict[str, Seat]:
        """Who a candidate is timed beside: these arms, and its base where there is one that starts and has room.

        Raises:
            WorkerError: an arm that ran before does not start.
        """
        self.await_spare()
        arms = self.live(names)
        if self.table.calls == 1 and self.table.device.is_crowded(self.table.moved):
            self.drop_base()  # calls are huge, and the float64 twin needs what it would hold
            return arms
        seat = self.base(base) if base is not None else None
        return arms if seat is None else {**arms, "base": seat}

    def sets(self, arms: Sequence[str], wanted: int, candidate: Candidate) -> list[dict[str, Seat]]:
        """Fresh process sets started side by side, as many as memory holds; processes of the others are loaded ahead.

        Args:
            arms: stock arms of each.
            wanted: how many sets, at most.
            candidate: who sits beside them, under "candidate".

        Raises:
            WorkerError: an arm that ran before does not start.
            WorkerFailure: the candidate does not; its verdict.
        """
        with self.table.device.aside():
            count = self.table.sets_that_fit(len(arms) + 1, wanted)
            if count < wanted:
                self._ahead.load(arms, wanted)
            first = self._first()
            benches, guests = self._together(
                [lambda: self.table.bench(arms, self.side.initial, first, self._ahead.stock())] * count,
                [lambda: self._loaded(candidate, self._ahead.candidate())] * count,
            )
        sets = [{**seats, "candidate": guest} for (seats, _), guest in zip(benches, guests, strict=True)]
        failed = {arm: why for _, missing in benches for arm, why in missing.items()}
        try:
            if failed:
                raise WorkerError(f"a stock arm that ran before does not start: {failed}")
            self._together([], [partial(self._warm, guest, first) for guest in guests])
        except BaseException:  # none must outlive whatever ended the first calls
            _close(seat for seats in sets for seat in seats.values())
            raise
        return sets

    def start(self, arms: Sequence[str], *, twin: bool = False) -> tuple[dict[str, Seat], dict[str, str]]:
        """Warm seats of stock arms, and why others could not be had.

        Args:
            arms: which ones; they share a process.
            twin: whether to have a `TWIN` too.

        Raises:
            TaskError, StockFailure: eager does not start.
        """
        first = self._first()
        wanted: list[tuple[str, ...]] = [tuple(arms), *([("eager",)] if twin else [])]
        benches, _ = self._together(
            [partial(self.table.bench, names, self.side.initial, first) for names in wanted], []
        )
        seats, failed = benches[0]
        return seats | ({TWIN: benches[1][0]["eager"]} if twin else {}), failed

    def _first(self) -> torch.Tensor:
        """A batch for first calls."""
        side = self.side
        return side.draw([secrets.randbits(62) for _ in range(side.layout.count)])

    def _together(
        self, benches: Sequence[Callable[[], Bench]], guests: Sequence[Callable[[], Seat]]
    ) -> tuple[list[Bench], list[Seat]]:
        """Start all of them side by side; where one does not start, none stays.

        Raises:
            KernelSkillError, WorkerFailure: what the first that failed raised.
        """
        device = self.table.device
        with ThreadPoolExecutor(max(STARTERS, self.table.threads), initializer=device.enter) as starters:
            ours = [starters.submit(work) for work in benches]
            theirs = [starters.submit(work) for work in guests]
        errors = [
            error
            for error in (
                *(future.exception() for future in ours),
                *(future.exception() for future in theirs),
            )
            if error is not None
        ]
        if errors:
            started = [future.result()[0].values() for future in ours if not future.exception()]
            _close(seat for seats in started for seat in seats)
            _close(future.result() for future in theirs if not future.exception())
            raise errors[0]
        return [future.result() for future in ours], [future.result() for future in theirs]

    def _warm(self, seat: Seat, first: torch.Tensor) -> Seat:
        """A candidate whose kernels are built; it rests until it is asked for more."""
        seat.give_state(self.side.initial)
        seat.burst(first, calls=1, rest=True)
        return seat

    def drop(self, arm: str) -> None:
        """Forget an arm whose neighbours stay; its worker ends with them."""
        seat = self.seats.pop(arm)
        if seat.state is not None:
            seat.state.close()

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
