"""Workers that hold no candidate: the reference, the stock arms. Their failures are ours."""

from __future__ import annotations

from typing import Any

from kernelskill.errors import WorkerError
from kernelskill.evaluation.channel import Lent
from kernelskill.evaluation.process import Worker, WorkerFailure


class StockFailure(WorkerError):
    """A worker of ours failed. It never counts against a candidate.

    Args:
        role: which one; the arm, where several share it.
        failure: what happened to it.
    """

    def __init__(self, role: str, failure: WorkerFailure) -> None:
        super().__init__(f"the {role} worker failed ({failure.status}): {failure.detail[-1500:]}")
        self.role = role
        self.failure = failure

    @property
    def line(self) -> str:
        """What happened, in one line."""
        return self.failure.line


class StockWorker(Worker):
    """A worker whose failures are raised as `StockFailure`."""

    def call(self, command: str, *, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        """As `Worker.call`.

        Raises:
            StockFailure: it failed.
        """
        try:
            return super().call(command, timeout_s=timeout_s, **arguments)
        except WorkerFailure as failure:
            raise StockFailure(arguments.get("arm") or self.role, failure) from failure

    def give(self, slot: Lent, *, writable: bool) -> int:
        """As `Worker.give`.

        Raises:
            StockFailure: it failed.
        """
        try:
            return super().give(slot, writable=writable)
        except WorkerFailure as failure:
            raise StockFailure(self.role, failure) from failure

    def freeze(self) -> None:
        """As `Worker.freeze`.

        Raises:
            StockFailure: it failed.
        """
        try:
            super().freeze()
        except WorkerFailure as failure:
            raise StockFailure(self.role, failure) from failure
