"""Processes of later process sets, started together before anything is timed.

Where inputs are so large that memory holds one set at a time, starting each when its turn comes would take longer than
timing it. A process that has loaded the reference, or is only up, holds next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kernelskill.errors import WorkerError
from kernelskill.evaluation.arms import Table
from kernelskill.evaluation.process import Worker, WorkerFailure
from kernelskill.evaluation.stock_worker import StockWorker

W = TypeVar("W", bound=Worker)


class Ahead:
    """Workers that wait for a seat."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._stock: list[StockWorker] = []
        self._candidates: list[Worker] = []
        self._loaded = False

    def load(self, arms: Sequence[str], sets: int) -> None:
        """Start the workers of so many sets, if that has not been done; returns when all are up.

        Args:
            arms: stock arms of one set.
            sets: how many; of each also a worker that knows of no candidate yet.
        """
        if self._loaded:
            return
        self._loaded = True
        device = self._table.device
        with ThreadPoolExecutor(max(2, self._table.threads), initializer=device.enter) as starters:
            started = [starters.submit(self._table.loaded, arms) for _ in range(sets)]
            self._candidates = [self._table.candidate_worker() for _ in range(sets)]
        # One that fails is started anew in its turn, and fails there.
        self._stock = [future.result() for future in started if future.exception() is None]
        for worker in list(self._candidates):
            try:
                worker.ready()
            except (WorkerError, WorkerFailure):
                self._candidates.remove(worker)
                worker.close()

    def stock(self) -> StockWorker | None:
        """A worker with the stock arms, if there is one."""
        return _living(self._stock)

    def candidate(self) -> Worker | None:
        """A worker for a candidate, if there is one."""
        return _living(self._candidates)

    def close(self) -> None:
        """End those that were not needed; later sets may be loaded anew."""
        for worker in (*self._stock, *self._candidates):
            worker.close()
        self._stock.clear()
        self._candidates.clear()
        self._loaded = False


def _living(waiting: list[W]) -> W | None:
    """The next of these that is alive, taken from them."""
    while True:
        try:
            worker = waiting.pop()
        except IndexError:  # another thread may have taken the last
            return None
        if worker.alive:
            return worker
        worker.close()
