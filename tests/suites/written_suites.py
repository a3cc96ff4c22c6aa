"""A suite run written by hand or by a seeded generator: as many tasks as wanted, of every kind of ending."""

import hashlib
import math
import random

from kernelskill.records import (
    Answer,
    Finding,
    Interval,
    Labels,
    StockTime,
    StockTimes,
    Suite,
    SuiteManifest,
    SuiteSession,
    SuiteTask,
    TaskOutcome,
    TaskResult,
)

NAMES = (
    "Square_matrix_multiplication",
    "ReLU",
    "Conv2d_GELU_GlobalAvgPool",
    "LayerNorm",
    "cumsum_reverse",
    "LSTM",
)
WORKS = ("matmul", "elementwise", "conv", "norm", "scan", "recurrent")
SKILLS = ("fuse-elementwise", "fuse-reduction", "split-k-matmul", "single-pass-scan", "tensor-core-matmul")


def interval(value, spread=0.02):
    return Interval(low=value * (1 - spread), value=value, high=value * (1 + spread))


def stock(eager_ms, best_ms, best_arm="compile"):
    def time(ms):
        return StockTime(median_ms=ms, p10_ms=ms * 0.98, p90_ms=ms * 1.06)

    arms = {"eager": time(eager_ms), best_arm: time(best_ms)}
    return StockTimes(arms=arms, best_arm=best_arm, noise_band_ratio=0.02)


def task(level, number, name="Gate"):
    return SuiteTask(
        key=f"level{level}/{number}_{name}", level=level, number=number, name=f"{number}_{name}",
        path=f"/suite/level{level}/{number}_{name}.py", hash=hashlib.sha256(f"{level}/{number}".encode()).hexdigest(),
    )  # fmt: skip


def answer(eager, over_stock, outcome=TaskOutcome.FASTER, status="passed", arm="compile", **fields):
    over = {} if status != "passed" else {"eager": interval(eager), arm: interval(over_stock)}
    sure = tuple(name for name, value in over.items() if value.low > 1)
    kinds = ("custom",) if status == "passed" else ()
    return Answer(
        id=fields.pop("id", "c003"), source_hash="f" * 64, outcome=outcome, status=status, stage="promotion", tier="match",
        labels=Labels(kinds=kinds, own_share_ratio=0.9), over=over, significant=sure, **fields,
    )  # fmt: skip


def line(
    item, outcome, *answers, reason="", eager_ms=1.0, best_ms=0.8, floor_ms=0.1, work="matmul", **fields
):
    return TaskResult(
        key=item.key, level=item.level, number=item.number, name=item.name, hash=item.hash, outcome=outcome, reason=reason,
        answers=answers, work=work, stock={"match": stock(eager_ms, best_ms)}, floor_ms=floor_ms, bound="memory",
        moved_bytes=1 << 28, state_bytes=1 << 20, wall_s=12.5, spent_s={"screen": 4.0, "promote": 5.0},
        gpu_s={"alone": 2.5, "shared": 1.5}, **fields,
    )  # fmt: skip


def manifest(tasks, kind="run", **fields):
    settings = {
        "target": "cuda", "precision": "match", "tolerance": "relative", "allow": [], "budget": {"seconds": 60.0},
    }  # fmt: skip
    return SuiteManifest(
        id=fields.pop("id", "written"), created="2026-11-30T12:00:00+00:00", kind=kind,
        suite=Suite(name="toy", root="/suite", origin="/suite", tasks=tuple(tasks)),
        settings={**settings, **fields.pop("settings", {})}, machine={"device": "NVIDIA H200", "threads": 16}, **fields,
    )  # fmt: skip


def session(wall_s=600.0, idle_ratio=0.25):
    return SuiteSession(
        id="20261130-120000", began="2026-11-30T12:00:00+00:00", wall_s=wall_s, jobs=2, pool="local", devices=("gpu 0",),
        idle_ratio=idle_ratio,
    )  # fmt: skip


def many(count=250, seed=7):
    """Tasks and lines of a plausible run over three levels."""
    rng = random.Random(seed)
    tasks, lines = [], []
    for place in range(count):
        level = 1 if place < 0.4 * count else 2 if place < 0.8 * count else 3
        kind = rng.randrange(len(NAMES))
        item = task(level, place + 1, NAMES[kind] + ("_with_a_long_name" * (place % 7 == 0)))
        tasks.append(item)
        lines.append(_line(rng, item, WORKS[kind]))
    return tasks, lines


def _line(rng, item, work):
    eager_ms = math.exp(rng.gauss(0, 1.5))
    best_ms = eager_ms * rng.uniform(0.5, 1.0)
    known = {
        "eager_ms": eager_ms,
        "best_ms": best_ms,
        "floor_ms": best_ms * rng.uniform(0.05, 0.7),
        "work": work,
    }
    dice = rng.random()
    if dice < 0.62:
        gain = min(math.exp(abs(rng.gauss(0.25, 0.4))) + 0.03, 0.95 * best_ms / known["floor_ms"] + 1)
        skills = tuple(rng.sample(SKILLS, rng.randint(1, 3)))
        won = answer(gain * eager_ms / best_ms, gain, skills=skills, time_ms=best_ms / gain)
        return line(
            item,
            TaskOutcome.FASTER,
            won,
            reason="patience: 4 rounds in a row without a gain",
            attempts=7,
            **known,
        )
    if dice < 0.75:
        near = rng.uniform(0.8, 1.01)
        found = answer(near * eager_ms / best_ms, near, TaskOutcome.VERIFIED, time_ms=best_ms / near)
        why = f"patience; c003 is verified, {near:.2f}x over best stock: not faster beyond the noise"
        return line(item, TaskOutcome.VERIFIED, found, reason=why, attempts=6, **known)
    if dice < 0.92:
        return line(
            item, TaskOutcome.STOCK, reason="nothing-to-gain: best stock is within 5 % of the floor", **known
        )
    if dice < 0.97:
        finding = Finding(code="input-independent", message="a stored result would pass", fatal=True)
        return line(
            item,
            TaskOutcome.UNTESTABLE,
            reason=f"{finding.code}: {finding.message}",
            findings=(finding,),
            **known,
        )
    return line(
        item, TaskOutcome.FAILED, reason="its process ended by signal SIGSEGV; last said: <gone>", **known
    )
