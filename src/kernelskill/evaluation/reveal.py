"""The clock that nothing can be hidden from: one call in flight, the next input not yet made.

In a burst all inputs lie in memory before the first is asked for, so a candidate may work ahead. Whoever looks faster
than the stock arms is therefore timed with one call in flight, beside the same arms. If its calls cost more there than
the same arms' calls do, working ahead may be what made it fast: then all arms are timed one call at a time, and those
times rank.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields
from statistics import median

from kernelskill.evaluation import contract
from kernelskill.evaluation.rounds import LEAST_ROUNDS, UNTRUSTED, Measured, scatter
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.trial import Trial
from kernelskill.evaluation.verdict import WorkerFailure
from kernelskill.records import Baselines, Status

CALLS = 7
ROUNDS = 2 * LEAST_ROUNDS + 1
"""Single calls of every arm where they rank."""
BRIEF = "calls are brief: ranked one at a time, with what it takes to reach the device"
SLACK_RATIO, SLACK_MS = 0.5, 0.02
"""What a call may cost more than in a burst, as a share of its time and in milliseconds, beyond what the stock arm's
does and the scatter of both."""


class Audit:
    """Looks at every candidate that would count as faster.

    Args:
        threads: that each arm is given.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def look(
        self,
        measured: Measured,
        arms: dict[str, Seat],
        trial: Trial,
        known: Baselines | None,
        *,
        anew: bool = False,
    ) -> None:
        """Time arms with one call in flight where it matters; `measured` changes if the burst's times were too good.

        Args:
            measured: what bursts gave.
            arms: the candidate's seat under "candidate", and the others'.
            trial: checks results.
            known: the stock arms' times, by which calls are brief or not, the same for all candidates.
            anew: look in any case, as for a winner.

        Raises:
            WorkerFailure: the candidate failed, or is wrong when it is asked for one call.
        """
        measured.flags.update(trial.flags)
        trial.ranked_ms = median(measured.times("candidate"))
        if known is not None and known.best_ms < trial.reference.device.brief_ms:
            self._rank_singly(arms, trial, measured, BRIEF)
            return
        if measured.calls == 1:  # calls so large that every burst is one: nothing lay there to work ahead on
            return
        ranked = {arm: median(measured.times(arm)) for arm in arms}
        fastest = min((arm for arm in arms if arm not in UNTRUSTED), key=lambda arm: ranked[arm])
        if not anew and ranked["candidate"] >= ranked[fastest]:
            return
        pair = {arm: arms[arm] for arm in ("candidate", fastest)}
        alone = singly(pair, arms["eager"], trial, CALLS)
        excess = works_ahead(
            alone.times("candidate"), alone.times(fastest), ranked["candidate"], ranked[fastest]
        )
        if excess <= 0:
            return
        flag = f"one call at a time takes {excess:.3f} ms more than in a burst: ranked one call at a time"
        self._rank_singly(arms, trial, measured, flag)

    def _rank_singly(self, arms: dict[str, Seat], trial: Trial, measured: Measured, flag: str) -> None:
        found = singly(arms, arms["eager"], trial, ROUNDS)
        trial.reference.device.honest(found, "candidate", self._threads)
        _put(found, measured, flag)


def works_ahead(
    mine: Sequence[float], stock: Sequence[float], mine_ranked: float, stock_ranked: float
) -> float:
    """Milliseconds that a single call costs more than in a burst, beyond what it costs a stock arm; 0 within noise.

    Args:
        mine: times of single calls.
        stock: the same of a stock arm.
        mine_ranked: its time in bursts.
        stock_ranked: the stock arm's.
    """
    excess = (median(mine) - mine_ranked) - max(0.0, median(stock) - stock_ranked)
    slack = SLACK_RATIO * mine_ranked + SLACK_MS + scatter(mine) + scatter(stock)
    return excess if excess > slack else 0.0


def singly(arms: dict[str, Seat], null: Seat, trial: Trial, rounds: int) -> Measured:
    """Rounds in which every arm gets one call, the same fresh input for all; the candidate's result is checked.

    Args:
        arms: who is timed.
        null: whose worker is also asked for a ready result.
        trial: checks results.
        rounds: how many.

    Raises:
        WorkerFailure: an arm failed, or the candidate is wrong.
    """
    side, order = trial.reference, random.Random(trial.secret.next())
    seats = [*arms.items(), ("null", null)]
    found = Measured(calls=1)
    try:
        for _ in range(rounds):
            batch = trial.among.draw(1)
            order.shuffle(seats)
            bursts = {}
            for arm, seat in seats:
                command = "null" if arm == "null" else "run"
                seat.ready(command)
                if arm != "null" and trial.workload.updated_state:
                    seat.give_state(side.initial)
                bursts[arm] = seat.burst(batch, command=command, calls=1, rest=True)
            mine = arms["candidate"].outputs.views(bursts["candidate"].outputs, 0)
            due = side.eager(batch, 1)[0]
            if trial.among.checked(batch, [mine], [due]) and not contract.alike(trial, mine, due):
                detail = "asked for one call at a time it gives another result"
                raise WorkerFailure(
                    Status.WRONG_VALUES, detail, "results must not depend on how calls arrive"
                )
            found.add(bursts)
    finally:
        for _, seat in seats:
            seat.wake()
    return found


def _put(found: Measured, into: Measured, flag: str) -> None:
    """Give a measurement the times of another one, and a flag that says so."""
    flags = {*into.flags, *found.flags, flag}
    for item in fields(Measured):
        setattr(into, item.name, getattr(found, item.name))
    into.flags = flags
