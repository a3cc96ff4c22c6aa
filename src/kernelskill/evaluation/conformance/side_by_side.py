"""Play the cases of several tasks side by side, in processes of their own.

Processes are spawned, not forked: whoever has woken the CUDA driver cannot fork. On a GPU their judges share its lease,
so that one times while others start workers and build kernels.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import FrameType

from kernelskill.evaluation.conformance.case import Case, Target, cases
from kernelskill.evaluation.conformance.outcome import Outcome
from kernelskill.evaluation.conformance.play import Unplayed, play_task

LEAVE_S = 10.0
"""How long a process may take to end its judge's workers when it is told to stop."""
ENDED = "the process that judged it has ended"
Order = tuple[Target, list[str]]
"""Ids of cases that share a judge."""


class Bench:
    """A process that plays one group of cases after the other."""

    def __init__(self) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        self.heard: Connection = ours
        self.ended = False
        self._left: dict[str, Case] = {}
        self._process = context.Process(target=serve, args=(theirs,))
        self._process.start()
        theirs.close()

    def order(self, group: list[Case]) -> None:
        """Have it play these."""
        self._left = {case.id: case for case in group}
        with suppress(OSError):  # it has ended: `next` finds out
            self.heard.send((group[0].target, list(self._left)))

    def next(self) -> Outcome | Unplayed | None:
        """What it says, once it says something; None: the group is through, or the process is (`ended`)."""
        try:
            item: Outcome | Unplayed | None = self.heard.recv()
        except (EOFError, ConnectionError):
            self.ended = True
            return None
        if item is not None:
            self._left.pop(item.case.id, None)
        return item

    def lost(self) -> list[Unplayed]:
        """Cases of its group that it has not told of."""
        return [Unplayed(case, ENDED) for case in self._left.values()]

    def close(self, *, gently: bool) -> None:
        """End it, and with it its judge's workers; gently: once it is done."""
        if gently:
            with suppress(OSError):
                self.heard.send(None)
            self._process.join(LEAVE_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(LEAVE_S)
            self._process.kill()
        self.heard.close()


def spread(groups: Sequence[list[Case]], jobs: int) -> Iterator[Outcome | Unplayed]:
    """Judge groups of cases in so many processes; verdicts come in the order in which they are reached.

    A process that dies costs the group that it was at; another takes its place.
    """
    waiting = deque(groups)
    benches: list[Bench] = []
    try:
        while waiting or benches:
            while waiting and len(benches) < jobs:
                benches.append(Bench())
                benches[-1].order(waiting.popleft())
            ready = wait([bench.heard for bench in benches])
            for bench in [bench for bench in benches if bench.heard in ready]:
                item = bench.next()
                if item is not None:
                    yield item
                    continue
                yield from bench.lost()
                if bench.ended or not waiting:
                    benches.remove(bench)
                    bench.close(gently=True)
                else:
                    bench.order(waiting.popleft())
    finally:
        for bench in benches:
            bench.close(gently=False)


def serve(connection: Connection) -> None:
    """Judge what is ordered until there is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it says when to stop
    signal.signal(signal.SIGTERM, _leave)
    while (order := connection.recv()) is not None:
        target, ids = order
        for item in play_task([case for case in cases() if case.target == target and case.id in ids]):
            connection.send(item)
        connection.send(None)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(1)
