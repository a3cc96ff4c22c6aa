"""The judge of one task. It owns seeds, inputs, expected values, clock and verdict.

It handles bytes only: reference and candidate run in workers of their own, and nothing that they say is believed
without the judge's own clock and comparison. What is peculiar to a device stands in its table (`arms.py`).
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import platformdirs
import torch

from kernelskill.errors import WorkerError
from kernelskill.evaluation import audit, canary, profiles, reference, replies, reveal, statistics, summary
from kernelskill.evaluation.arms import Table, calls_for, reference_limits
from kernelskill.evaluation.device import CPU, Device
from kernelskill.evaluation.labels import is_allowed, observe
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.rounds import LEAST_ROUNDS, Measured, rounds_for, run_rounds
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import FIRST_CALL_S, Burst, Seat
from kernelskill.evaluation.secret import Secret
from kernelskill.evaluation.stock import TWIN, Stock
from kernelskill.evaluation.stock_worker import StockFailure
from kernelskill.evaluation.trial import Trial
from kernelskill.evaluation.verdict import Wrong
from kernelskill.records import Baselines, Candidate, Evaluation, Json, Labels, Status, Task, Workload

T = TypeVar("T")
LOT = 2
"""Hidden families that a finalist meets before and after each timing, and huge calls after a screen, which has all."""
PROMOTION_SHARE = 0.5
"""Share of a screen's timing that each process set of a promotion gets: what is unknown differs between the sets."""
NEAR = 1.15
"""Times the best stock arm's up to which another arm might be the best in other processes, and is promoted against."""
WIDE_BAND, MORE_TWINS = 0.04, 1
"""Band of eager against itself from which it is timed again, and how often at most."""


class Judge:
    """Implements `protocols.Evaluator` on one device.

    Args:
        task: what candidates are judged against.
        sandbox: how workers are confined; default: the best that this machine gives.
        threads: threads of every arm; default: all cores.
        allow: labels that may win; empty allows all.
        tolerance: "relative" (error against float64) or "kernelbench" (allclose at 1e-4).
        progress: told in a few words what goes on.
        cache_dir: folder for the compile arm's artefacts.
        promotion_sets: fresh process sets in a promotion; default: what the device's scatter asks for.
        patience_s: longest time for a candidate's first call; a sixth of it, and twenty times eager, for later bursts.
        floor_ms: time below which no program can go; a candidate beyond it is flagged. `adopt` may set it.
        device: where everything is computed and timed; default: the CPU (for a GPU: `cuda.judge.cuda_judge`).
    """

    def __init__(
        self,
        task: Task,
        *,
        sandbox: Sandbox | None = None,
        threads: int | None = None,
        allow: frozenset[str] = frozenset(),
        tolerance: str = "relative",
        progress: Callable[[str], None] | None = None,
        cache_dir: Path | None = None,
        promotion_sets: int | None = None,
        patience_s: float = FIRST_CALL_S,
        floor_ms: float | None = None,
        device: Device = CPU,
    ) -> None:
        self.task = task
        self.sandbox = sandbox or Sandbox.probe()
        self.threads = threads or len(os.sched_getaffinity(0))
        self.allow = allow
        self.tolerance = tolerance
        self.cache = (cache_dir or platformdirs.user_cache_path("kernelskill")) / "inductor"
        self.promotion_sets = promotion_sets or device.promotion_sets
        self.patience_s = patience_s
        self.floor_ms = floor_ms
        self._say = progress or (lambda _: None)
        self._stock: Stock | None = None
        self._baselines: Baselines | None = None
        self.device = device
        self._reveal = reveal.Audit(self.threads)
        self.replayed: bytes | None = None
        """The seed of an earlier evaluation, whose inputs are to come again, byte for byte."""
        # Idle threads of ours would spin on the cores that a timed worker needs.
        self._own_threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def describe(self) -> Workload:
        """Run the reference once, confined, and audit what can be proven on this task."""
        settings = (self.sandbox, reference_limits(self.device), self.threads, None, self.device.name)
        with self.device.lease():
            worker = reference.reference_worker("reference", self.task, *settings)
            try:
                with self.device.aside():
                    worker.ready()
                workload = reference.describe(worker, self.task, secrets.randbits(62), self.device)
            finally:
                worker.close()
        known = audit.known_findings(workload, self.device.free_bytes(), self.task.weights)
        findings = [*workload.findings, *known]
        self.adopt(workload, None)
        if not any(finding.fatal for finding in findings):
            findings += self._retried(lambda: audit.power_findings(self._need.side, self._trial(Secret())))
        workload = workload.model_copy(update={"findings": (*findings, *audit.time_findings(workload))})
        self.adopt(workload, None)
        return workload

    def adopt(self, workload: Workload, baselines: Baselines | None, floor_ms: float | None = None) -> None:
        """Go on with what is known; workers start when they are needed."""
        self.floor_ms = floor_ms or self.floor_ms
        if self._stock is None or self._stock.table.workload != workload:
            calls = calls_for(workload, self.device.free_bytes(), self.device)
            if self._stock is not None:
                calls = self._stock.table.calls
                self._stock.close()
            settings = (self.threads, self.cache, calls, self.patience_s, self.device)
            self._stock = Stock(Table(self.task, workload, self.sandbox, *settings))
        self._baselines = baselines or self._baselines

    def baselines(self) -> Baselines:
        """Time eager and compile in paired rounds, and eager against itself for the A/A band."""
        return self._retried(self._time_baselines)

    def screen(self, candidate: Candidate, base: Candidate | None) -> Evaluation:
        """Correctness on every family, then short paired rounds against the stock arms and the base."""
        return self._retried(lambda: self._screen(candidate, base))

    def promote(self, candidate: Candidate) -> Evaluation:
        """Winner, eager and best stock in the same fresh process sets, checked again on fresh inputs."""
        return self._retried(lambda: self._promote(candidate))

    def profile(self, candidate: Candidate, kernels: Sequence[str]) -> Json:
        """Raw step times from a worker of its own; {"error": ...} where it fails."""
        return profiles.step_times(self._need, candidate, kernels)

    def count(self, candidate: Candidate, metrics: Sequence[str]) -> Json:
        """What the GPU counted during one call; {"error": ...} where it cannot be asked."""
        return profiles.counters(self._need, candidate, metrics)

    def close(self) -> None:
        """End every worker."""
        if self._stock is not None:
            self._stock.close()
        self.device.close()
        torch.set_num_threads(self._own_threads)

    # -- flow --------------------------------------------------------------------------------------

    def _time_baselines(self) -> Baselines:
        stock = self._need
        said = " and ".join("torch.compile" if arm == "compile" else arm for arm in stock.table.timed_arms)
        self._say(f"starting {said}")
        stock.release()
        with self.device.aside():
            arms, failed = stock.start(stock.table.timed_arms, twin=True)
        stock.seats = dict(arms)
        if self.device.name == "cpu":  # on a GPU a further worker takes seconds; there the selftest does it
            canary.sing(stock.table, self._trial(Secret()))
        self._say(f"timing {said}")
        measured = self._measured_stock(arms, failed)
        band = self._noise_band(measured, {arm: arms[arm] for arm in ("eager", TWIN)})
        stock.seats.pop(TWIN).close()
        del arms[TWIN]
        for arm in [arm for arm in arms if arm != "eager"]:
            if not self._is_right(arms[arm]):
                failed[arm] = "its results differ from eager's by more than the public tolerance"
                stock.drop(arm)
                del arms[arm]
        timings = tuple(
            statistics.timing(arm, [measured.times(arm)], median(measured.worker[arm])) for arm in arms
        )
        best = min(timings, key=lambda item: item.median_ms).arm
        self._baselines = Baselines(
            timings=timings,
            best_arm=best,
            unavailable={**stock.table.unavailable, **failed},
            noise_band_ratio=band,
            null_ms=measured.null_ms,
        )
        return self._baselines

    def _noise_band(self, measured: Measured, twins: dict[str, Seat]) -> float:
        """The A/A band; where it is wide, more rounds tell noise from a difference of the two processes."""
        ratios, busy = measured.ratios("eager", over=TWIN), [measured.busy_ratio]
        for _ in range(MORE_TWINS):
            if statistics.noise_band(ratios, median(busy)) <= WIDE_BAND:
                break
            more = self._measure(twins)
            ratios += more.ratios("eager", over=TWIN)
            busy.append(more.busy_ratio)
        return statistics.noise_band(ratios, median(busy))

    def _measured_stock(self, arms: dict[str, Seat], failed: dict[str, str]) -> Measured:
        """Times of all arms; those that do not run, other than eager, leave `arms` for `failed`."""
        while True:
            try:
                return self._measure(arms)
            except StockFailure as failure:
                if failure.role not in arms or failure.role == "eager":
                    raise
                failed[failure.role] = failure.line
                self._need.release()
                left = [arm for arm in arms if arm not in (failure.role, TWIN)]
                arms.clear()
                started, more = self._need.start(left, twin=True)
                arms |= started
                failed |= more
                self._need.seats = dict(arms)

    def _is_right(self, seat: Seat) -> bool:
        """Whether a stock arm is right by the public rule: leaving one out for less would flatter candidates."""
        trial = self._trial(Secret(), "kernelbench")
        try:
            trial.family(seat, "task", trial.reference.initial)
        except Wrong:
            return False
        return True

    def _screen(self, candidate: Candidate, base: Candidate | None) -> Evaluation:
        began = time.monotonic()
        secret, trial = Secret(), None
        seat: Seat | None = None
        try:
            with self.device.aside():
                seat = self._need.candidate(candidate)
            secret = Secret(self.replayed)
            trial = self._trial(secret)
            self._need.start_spare()
            trial.families(seat)
            with self.device.aside():
                arms = self._need.arms(self._stock_arms(), base) | {"candidate": seat}
            with self.device.alone():
                measured = self._measure(arms, trial)
                self._reveal.look(measured, arms, trial, self._baselines)
            trial.again(seat, None if trial.reference.layout.count > 1 else LOT)
            evaluation = self._verdict(candidate, "screen", trial, [measured], seat)
        except (Wrong, WorkerFailure) as failure:
            evaluation = self._failed(candidate, "screen", failure, trial)
        finally:
            if seat is not None:
                seat.close()
        self._need.start_spare()  # this candidate may have ended before one was
        return self._closed(evaluation, secret, began)

    def _promote(self, candidate: Candidate) -> Evaluation:
        began = time.monotonic()
        secret, trial = Secret(), None
        sets: list[Measured] = []
        waiting: list[dict[str, Seat]] = []
        stock = self._need
        stock.release()
        names = self._stock_arms(NEAR)
        try:
            for number in range(self.promotion_sets):
                waiting = waiting or stock.sets(names, self.promotion_sets - number, candidate)
                stock.seats = arms = waiting.pop(0)
                seat = arms["candidate"]
                if trial is None:
                    secret = Secret(self.replayed)
                    trial = self._trial(secret)
                    trial.families(seat, LOT)
                self._say(f"process set {number + 1} of {self.promotion_sets}")
                with self.device.alone():
                    sets.append(self._measure(arms, trial, in_set=True))
                    self._reveal.look(sets[-1], arms, trial, self._baselines, anew=True)
                trial.again(seat, LOT)
                if number + 1 < self.promotion_sets:
                    stock.release()
            assert trial is not None
            evaluation = self._verdict(candidate, "promotion", trial, sets, seat)
        except (Wrong, WorkerFailure) as failure:
            evaluation = self._failed(candidate, "promotion", failure, trial)
        finally:
            for idle in (idle for arms in waiting for idle in arms.values()):
                idle.close()
            stock.close_sets()
        return self._closed(evaluation, secret, began)

    def _measure(self, arms: dict[str, Seat], trial: Trial | None = None, in_set: bool = False) -> Measured:
        side = self._need.side
        self.device.trim()
        secret = trial.secret if trial else Secret()

        def draw() -> torch.Tensor:
            count = side.layout.count
            return trial.among.draw(count) if trial else side.draw([secret.next() for _ in range(count)])

        def check(batch: torch.Tensor, bursts: dict[str, Burst]) -> None:
            if trial is not None:
                trial.timed(arms["candidate"], batch, bursts)

        workload = self._need.table.workload
        eager_ms = (self._baselines.ms("eager") if self._baselines else None) or workload.eager_ms
        share, least = (PROMOTION_SHARE, self.device.set_rounds) if in_set else (1.0, LEAST_ROUNDS)
        rounds = rounds_for(eager_ms, side.layout.count, share * self.device.timed_s, least)
        prepare = (lambda seat: seat.give_state(side.initial)) if workload.updated_state else None
        with self.device.alone():
            measured = run_rounds(arms, draw, rounds, random.Random(secret.next()), check, prepare)
            if trial is not None:
                self.device.honest(measured, "candidate", self.threads)
        return measured

    # -- verdicts ----------------------------------------------------------------------------------

    def _verdict(
        self, candidate: Candidate, stage: str, trial: Trial, sets: list[Measured], seat: Seat
    ) -> Evaluation:
        assert self._baselines is not None
        band = self._baselines.noise_band_ratio
        flags = summary.flags(sets, self.floor_ms) + ([summary.REPLAYED] if self.replayed else [])
        labels = observe(seat, flags, candidate.skills, trial)
        if not is_allowed(labels, self.allow):
            seen = ", ".join(labels.kinds) or "nothing observed"
            detail = f"it is {seen}; allowed: {', '.join(sorted(self.allow))}"
            return self._evaluation(candidate, stage, Status.NOT_ALLOWED, detail=detail, labels=labels)
        return self._evaluation(
            candidate,
            stage,
            Status.PASSED,
            tier=trial.tier,
            errors=tuple(trial.errors),
            timings=summary.timings(sets),
            comparisons=summary.comparisons(sets, band),
            noise_band_ratio=band,
            labels=labels,
        )

    def _failed(
        self, candidate: Candidate, stage: str, failure: Wrong | WorkerFailure, trial: Trial | None
    ) -> Evaluation:
        errors = failure.errors if isinstance(failure, Wrong) else ()
        return self._evaluation(
            candidate,
            stage,
            failure.status,
            detail=replies.text(failure.detail, replies.DETAIL_LENGTH),
            hint=replies.text(failure.hint, replies.DETAIL_LENGTH),
            errors=errors or (tuple(trial.errors) if trial else ()),
            labels=failure.labels if isinstance(failure, Wrong) else Labels(),
        )

    def _evaluation(self, candidate: Candidate, stage: str, status: Status, **fields: object) -> Evaluation:
        return Evaluation(
            candidate_id=candidate.id,
            source_hash=candidate.source_hash,
            stage=stage,  # type: ignore[arg-type]
            status=status,
            sandbox=f"{self.sandbox.level}: {', '.join((*self.sandbox.layers, *self.device.words()))}",
            **fields,  # type: ignore[arg-type]
        )

    def _closed(self, evaluation: Evaluation, secret: Secret, began: float) -> Evaluation:
        """The seed is told now that the candidate is dead."""
        machine_s = round(time.monotonic() - began, 3)
        told = {"seed_commitment": secret.commitment, "seed": secret.seed.hex(), "machine_s": machine_s}
        return evaluation.model_copy(update=told)

    def _retried(self, step: Callable[[], T]) -> T:
        """A step; once more with fresh workers if one of ours failed.

        Raises:
            WorkerError: it failed again.
        """
        with self.device.lease(huge=self._need.table.calls == 1):
            try:
                return step()
            except StockFailure as failure:
                self._say(f"once more with fresh workers: {failure.line}")
                self._need.close()
            return step()

    def _trial(self, secret: Secret, tolerance: str = "") -> Trial:
        need = self._need
        return Trial(need.table.workload, need.side, self.task, tolerance or self.tolerance, secret)

    def _stock_arms(self, near: float = 1.0) -> tuple[str, ...]:
        """Eager, the fastest arm, and those that take at most `near` times as long."""
        if self._baselines is None:
            raise WorkerError("baselines() (or adopt()) comes before candidates")
        known = self._baselines
        fast = (item.arm for item in known.timings if item.median_ms <= near * known.best_ms)
        return tuple(dict.fromkeys(("eager", known.best_arm, *fast)))

    @property
    def _need(self) -> Stock:
        if self._stock is not None:
            return self._stock
        raise WorkerError("describe() (or adopt()) comes first")
