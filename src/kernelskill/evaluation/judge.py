"""The judge of one task on the CPU. It owns seeds, inputs, expected values, clock and verdict.

It handles bytes only: reference and candidate run in workers of their own, and nothing that they say is believed
without the judge's own clock and comparison.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median

import torch

from kernelskill.errors import KernelSkillError, WorkerError
from kernelskill.evaluation import correctness, reference, statistics
from kernelskill.evaluation.arms import LOAD_S, Table
from kernelskill.evaluation.labels import observe
from kernelskill.evaluation.process import Limits, WorkerFailure
from kernelskill.evaluation.reference import ReferenceSide, load_arm, reference_worker
from kernelskill.evaluation.rounds import Measured, rounds_for, run_rounds
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.evaluation.seat import Seat
from kernelskill.evaluation.state import State
from kernelskill.evaluation.trial import Secret, Trial, Wrong
from kernelskill.records import (
    Baselines,
    Candidate,
    Evaluation,
    Json,
    Status,
    Task,
    Workload,
)

NOISE_FLOOR = 0.02
"""Smallest A/A band: changes below 2 % are never called changes."""
WIDEST_BAND = 0.2
"""An A/A check that is further off than this met a disturbance; the intervals tell of it."""
WORKER_BYTES = 700 << 20
"""Memory that a stock arm with torch (and the compiler) loaded takes, about."""
ON_CPU = {"graph": "CUDA graphs need a GPU", "compile+graph": "CUDA graphs need a GPU"}
DESCRIBE_LIMITS = Limits(memory_bytes=64 << 30, cpu_s=900, processes=256, file_bytes=1 << 30, start_s=60.0)


class CpuJudge:
    """Implements `protocols.Evaluator` on the CPU.

    Args:
        task: what candidates are judged against.
        sandbox: how workers are confined; default: the best that this machine gives.
        threads: threads of every arm; default: all cores.
        allow: labels that may win; empty allows all.
        tolerance: "relative" (error against float64) or "kernelbench" (allclose at 1e-4).
        cache_dir: folder for the compile arm's artefacts.
        promotion_sets: fresh process sets in a promotion.
    """

    def __init__(
        self,
        task: Task,
        *,
        sandbox: Sandbox | None = None,
        threads: int | None = None,
        allow: frozenset[str] = frozenset(),
        tolerance: str = "relative",
        cache_dir: Path | None = None,
        promotion_sets: int = 4,
    ) -> None:
        self.task = task
        self.sandbox = sandbox or Sandbox.probe()
        self.threads = threads or len(os.sched_getaffinity(0))
        self.allow = allow
        self.tolerance = tolerance
        self.cache = (cache_dir or Path.home() / ".cache" / "kernelskill") / "inductor"
        self.promotion_sets = promotion_sets
        self._table: Table | None = None
        self._baselines: Baselines | None = None
        self._reference: ReferenceSide | None = None
        self._seats: dict[str, Seat] = {}
        self._base: tuple[str, Seat, State] | None = None
        # Idle threads of ours would spin on the cores that a timed worker needs.
        self._own_threads = torch.get_num_threads()
        torch.set_num_threads(1)

    # -- protocols.Evaluator -----------------------------------------------------------------------

    def describe(self) -> Workload:
        """Run the reference once, confined, and audit what can be proven on this task."""
        worker = reference_worker("reference", self.task, self.sandbox, DESCRIBE_LIMITS, self.threads)
        try:
            workload = reference.describe(worker, self.task, secrets.randbits(62))
        finally:
            worker.close()
        powerless = ""
        if not any(finding.fatal for finding in workload.findings):
            self.adopt(workload, None)
            powerless = self._powerless(workload)
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        findings = reference.judge_findings(workload, free, powerless)
        workload = workload.model_copy(update={"findings": findings})
        self.adopt(workload, None)
        return workload

    def adopt(self, workload: Workload, baselines: Baselines | None) -> None:
        """Go on with what is known; workers start when they are needed."""
        self._table = Table(self.task, workload, self.sandbox, self.threads, self.cache)
        self._baselines = baselines or self._baselines

    def baselines(self) -> Baselines:
        """Time eager and compile in paired rounds, and eager against itself for the A/A band."""
        table = self._need_table()
        unavailable = dict(ON_CPU)
        arms, failed = self._start(("eager", "compile", "null", "twin"))
        unavailable |= failed
        null, twin = arms.pop("null"), arms.pop("twin")
        try:
            measured = self._measure({**arms, "twin": twin}, null)
        finally:
            twin.close()
        self._seats = {**arms, "null": null}
        aa = statistics.rank_interval(measured.ratios("eager", over="twin"))
        band = max(NOISE_FLOOR, min(WIDEST_BAND, 2 * abs(aa.value - 1)))
        timings = tuple(
            statistics.timing(arm, [measured.times(arm)], median(measured.worker[arm])) for arm in arms
        )
        best = min(timings, key=lambda item: item.median_ms).arm
        self._baselines = Baselines(
            timings=timings,
            best_arm=best,
            unavailable=unavailable,
            noise_band_ratio=band,
            null_ms=measured.null_ms,
        )
        return self._baselines

    def screen(self, candidate: Candidate, base: Candidate | None) -> Evaluation:
        """Correctness on every family, then short paired rounds against the stock arms and the base."""
        began = time.monotonic()
        secret, trial = Secret(), None
        seat: Seat | None = None
        try:
            seat, state = self._need_table().candidate(candidate)
            secret = Secret()
            trial = self._trial(secret)
            state.write(trial.reference.initial)
            self._first_call(seat, secret)
            trial.families(seat, state)
            arms = self._live_arms()
            null = arms.pop("null")
            if base is not None:
                arms["base"] = self._base_seat(base)
            measured = self._measure({"candidate": seat, **arms}, null, trial)
            evaluation = self._verdict(candidate, "screen", trial, [measured], seat)
        except (Wrong, WorkerFailure) as failure:
            evaluation = self._failed(candidate, "screen", failure, trial)
        finally:
            if seat is not None:
                seat.close()
        return self._closed(evaluation, secret, began)

    def promote(self, candidate: Candidate) -> Evaluation:
        """Winner, eager and best stock in the same fresh process sets, checked again on fresh inputs."""
        began = time.monotonic()
        secret, trial = Secret(), None
        seat: Seat | None = None
        sets: list[Measured] = []
        self._release_seats()
        names = (*self._stock_arms(), "null")
        prepared: list[dict[str, Seat]] = []
        try:
            for number in range(self.promotion_sets):
                if not prepared:
                    prepared = self._start_sets(names, self.promotion_sets - number)
                arms = prepared.pop(0)
                self._seats = dict(arms)
                if seat is not None:
                    seat.close()
                seat, state = self._need_table().candidate(candidate)
                secret = Secret() if number == 0 else secret
                trial = trial or self._trial(secret)
                state.write(trial.reference.initial)
                self._first_call(seat, secret)
                if number == 0:
                    trial.families(seat, state)
                null = arms.pop("null")
                sets.append(self._measure({"candidate": seat, **arms}, null, trial))
                self._release_seats()
            assert trial is not None
            assert seat is not None
            evaluation = self._verdict(candidate, "promotion", trial, sets, seat)
        except (Wrong, WorkerFailure) as failure:
            evaluation = self._failed(candidate, "promotion", failure, trial)
        finally:
            for waiting in (seats for arms in prepared for seats in arms.values()):
                waiting.close()
            if seat is not None:
                seat.close()
            self._release_seats()
        return self._closed(evaluation, secret, began)

    def profile(self, candidate: Candidate, kernels: Sequence[str]) -> Json:
        """Raw step times from a worker of its own; {"error": ...} where it fails."""
        try:
            seat, state = self._need_table().candidate(candidate)
        except WorkerFailure as failure:
            return {"error": _line(failure)}
        try:
            side = self._need_reference()
            state.write(side.initial)
            batch = side.draw([secrets.randbits(62) for _ in range(seat.inputs.count)])
            assert batch is not None
            seat.burst(batch)
            return seat.worker.call("profile", timeout_s=4 * seat.seconds, kernels=list(kernels), repeats=9)
        except WorkerFailure as failure:
            return {"error": _line(failure)}
        finally:
            seat.close()

    def close(self) -> None:
        """End every worker."""
        self._release_seats()
        if self._reference is not None:
            self._reference.close()
            self._reference = None
        torch.set_num_threads(self._own_threads)

    # -- pieces ------------------------------------------------------------------------------------

    def _measure(self, arms: dict[str, Seat], null: Seat, trial: Trial | None = None) -> Measured:
        side = self._need_reference()
        count = side.layout.count
        secret = trial.secret if trial else Secret()

        def draw() -> torch.Tensor:
            batch = side.draw([secret.next() for _ in range(count)])
            assert batch is not None
            return batch

        def check(_: torch.Tensor, bursts: dict) -> None:  # type: ignore[type-arg]
            if trial is not None:
                trial.timed(arms["candidate"], bursts)

        eager_ms = self._need_table().workload.eager_ms
        if self._baselines is not None:
            eager_ms = self._baselines.ms("eager") or eager_ms
        rounds = rounds_for(eager_ms, count)
        return run_rounds(arms, null, draw, rounds, random.Random(secret.next()), check)

    def _first_call(self, seat: Seat, secret: Secret) -> None:
        """The first call may compile (a candidate under torch.compile does), so it gets the time of a build."""
        side = self._need_reference()
        batch = side.draw([secret.next() for _ in range(side.layout.count)])
        assert batch is not None
        usual, seat.seconds = seat.seconds, LOAD_S
        seat.burst(batch, calls=1)
        seat.seconds = usual

    def _verdict(
        self, candidate: Candidate, stage: str, trial: Trial, sets: list[Measured], seat: Seat
    ) -> Evaluation:
        assert self._baselines is not None
        band = self._baselines.noise_band_ratio
        flags = sorted({flag for measured in sets for flag in measured.flags})
        labels = observe(seat, flags, candidate.skills)
        if self.allow and not set(labels.kinds) <= self.allow | {"algebraic", "specialised"}:
            return self._evaluation(
                candidate, stage, Status.NOT_ALLOWED,
                detail=f"it is {', '.join(labels.kinds) or 'nothing observed'}; allowed: {', '.join(self.allow)}",
                labels=labels,
            )  # fmt: skip
        arms = [arm for arm in sets[0].wall if arm != "candidate"]
        return self._evaluation(
            candidate,
            stage,
            Status.PASSED,
            tier=self.task.precision.value,
            errors=tuple(trial.errors),
            timings=tuple(
                statistics.timing(
                    arm,
                    [measured.times(arm) for measured in sets],
                    median(value for measured in sets for value in measured.worker[arm]),
                )
                for arm in ("candidate", *arms)
            ),
            comparisons=tuple(
                statistics.compare(arm, [measured.ratios(arm) for measured in sets], band) for arm in arms
            ),
            noise_band_ratio=band,
            labels=labels,
        )

    def _failed(
        self, candidate: Candidate, stage: str, failure: Wrong | WorkerFailure, trial: Trial | None
    ) -> Evaluation:
        errors = failure.errors if isinstance(failure, Wrong) else tuple(trial.errors) if trial else ()
        if trial is not None and not trial.reference.worker.alive:
            raise WorkerError(f"the reference worker ended: {trial.reference.worker.output[-500:]}")
        return self._evaluation(
            candidate, stage, failure.status, detail=failure.detail[:8000], hint=failure.hint, errors=errors
        )

    def _evaluation(self, candidate: Candidate, stage: str, status: Status, **fields: object) -> Evaluation:
        return Evaluation(
            candidate_id=candidate.id,
            source_hash=candidate.source_hash,
            stage=stage,  # type: ignore[arg-type]
            status=status,
            sandbox=f"{self.sandbox.level}: {', '.join(self.sandbox.layers)}",
            **fields,  # type: ignore[arg-type]
        )

    def _closed(self, evaluation: Evaluation, secret: Secret, began: float) -> Evaluation:
        """The seed is told now that the candidate is dead."""
        return evaluation.model_copy(
            update={
                "seed_commitment": secret.commitment,
                "seed": secret.seed.hex(),
                "machine_s": round(time.monotonic() - began, 3),
            }
        )

    def _trial(self, secret: Secret) -> Trial:
        side = self._need_reference()
        return Trial(self._need_table().workload, side, self.task.precision, self.tolerance, secret)

    def _powerless(self, workload: Workload) -> str:
        """What wrong answer the gates would accept on the task's own inputs ("" = none)."""
        side = self._need_reference()
        trial = self._trial(Secret())
        count = trial.calls()
        first, second = side.draw(trial.seeds(count)), side.draw(trial.seeds(count))
        assert first is not None
        assert second is not None
        eager, other = side.eager(first, count), side.eager(second, count)
        side.state.write(side.initial)
        twin = side.twin(first, count)
        side.state.write(side.initial)
        weak = []
        for place in range(len(workload.outputs)):
            pool = correctness.Pool([], [row[place] for row in eager], [row[place] for row in twin])
            if pool.eager[0].numel() == 0:
                continue
            allowed = trial.allowed(pool.eager[0].dtype)
            weak.append(correctness.has_power(pool, [row[place] for row in other], allowed))
        return weak[0] if weak and all(weak) else ""

    def _stock_arms(self) -> tuple[str, ...]:
        assert self._baselines is not None, "baselines() comes before candidates"
        return tuple(dict.fromkeys(("eager", self._baselines.best_arm)))

    def _live_arms(self) -> dict[str, Seat]:
        """The stock arms and the null worker, kept from screen to screen."""
        names = (*self._stock_arms(), "null")
        missing = [name for name in names if name not in self._seats or not self._seats[name].worker.alive]
        if missing:
            started, failed = self._start(missing)
            self._seats.update(started)
            if failed:
                raise WorkerError(f"a baseline that ran before does not start: {failed}")
        return {name: self._seats[name] for name in names}

    def _start_sets(self, names: Sequence[str], wanted: int) -> list[dict[str, Seat]]:
        """Process sets started side by side, as many as memory holds."""
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        table = self._need_table()
        per_set = len(names) * (WORKER_BYTES + 2 * table.calls * sum(s.nbytes for s in table.workload.inputs))
        count = max(1, min(wanted, int(0.5 * free / per_set)))
        keys = [f"{name}#{number}" for number in range(count) for name in names]
        started, failed = self._start(keys)
        if failed:
            raise WorkerError(f"a baseline that ran before does not start: {failed}")
        return [{name: started[f"{name}#{number}"] for name in names} for number in range(count)]

    def _start(self, names: Sequence[str]) -> tuple[dict[str, Seat], dict[str, str]]:
        """Seats of several arms, started side by side, and why others could not be had."""
        side, table = self._need_reference(), self._need_table()
        first = side.draw([secrets.randbits(62) for _ in range(side.layout.count)])
        assert first is not None

        def start(name: str) -> Seat:
            arm = name.split("#")[0]
            if arm == "null":
                return table.null()
            return table.stock("eager" if arm == "twin" else arm, side.initial, first)

        seats: dict[str, Seat] = {}
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(max_workers=max(2, self.threads)) as starters:
            for name, started in [(name, starters.submit(start, name)) for name in names]:
                try:
                    seats[name] = started.result()
                except (WorkerFailure, KernelSkillError) as failure:
                    failed[name] = _line(failure)
        if any(name.startswith(("eager", "twin", "null")) for name in failed):
            for seat in seats.values():
                seat.close()
            raise WorkerError(f"eager cannot be timed: {next(iter(failed.values()))}")
        return seats, failed

    def _base_seat(self, base: Candidate) -> Seat:
        """The base, kept alive from screen to screen; it was verified before."""
        if self._base is None or self._base[0] != base.id or not self._base[1].worker.alive:
            if self._base is not None:
                self._base[1].close()
            seat, state = self._need_table().candidate(base)
            state.write(self._need_reference().initial)
            self._base = (base.id, seat, state)
        return self._base[1]

    def _release_seats(self) -> None:
        for seat in self._seats.values():
            seat.close()
        self._seats.clear()
        if self._base is not None:
            self._base[1].close()
            self._base = None

    def _need_reference(self) -> ReferenceSide:
        if self._reference is None or not self._reference.worker.alive:
            table = self._need_table()
            if self._reference is not None:
                with suppress(WorkerFailure):
                    self._reference.close()
            worker = reference_worker("reference", self.task, self.sandbox, DESCRIBE_LIMITS, self.threads)
            try:
                load_arm(worker, self.task, "eager")
                self._reference = ReferenceSide(worker, table.workload, table.calls, max(60.0, table.seconds))
            except WorkerFailure as failure:
                worker.close()
                raise WorkerError(f"the reference worker failed: {_line(failure)}") from failure
        return self._reference

    def _need_table(self) -> Table:
        if self._table is None:
            raise WorkerError("describe() (or adopt()) comes first")
        return self._table


def _line(failure: Exception) -> str:
    text = failure.detail if isinstance(failure, WorkerFailure) else str(failure)
    return next((line for line in text.splitlines() if line.strip()), type(failure).__name__)[:300]
