"""Begin a suite run, or go on with one; and who works on it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pydantic import ValidationError

from kernelskill.config import Config, threads_of
from kernelskill.errors import ConfigError, RunError
from kernelskill.records import Foreign, Suite, SuiteKind, SuiteManifest
from kernelskill.suites.cores import Cores, own_cores
from kernelskill.suites.folder import MANIFEST, SuiteFolder, new_id, require_same, settings_of
from kernelskill.suites.machine import Machine
from kernelskill.suites.pool import LocalPool, Pool, Seat
from kernelskill.suites.ray_pool import RayPool, parse_takes

CORES_A_TASK = 2
"""Cores that a task on a GPU gets: one for the judge, one for the worker that is timed; compiling has the same two."""
LEAST_PLACES, MOST_PLACES = 2, 10
"""Tasks at a time on a GPU: one times, the others start processes, compile and write."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def begin(
    config: Config,
    kind: SuiteKind,
    suite: Suite,
    machine: Machine,
    *,
    run_id: str = "",
    preset: str = "",
    quick: bool = False,
    candidates: dict[str, tuple[Foreign, ...]] | None = None,
) -> SuiteFolder:
    """The folder of a run: a new one, or the one of that id if it was begun with the same settings.

    Raises:
        ConfigError: the id is not usable as a folder's name.
        RunError: the run of that id was begun with other settings.
    """
    if run_id and not _ID.fullmatch(run_id):
        raise ConfigError(f"--id {run_id!r}: use letters, digits, '-', '_' and '.'")
    manifest = SuiteManifest(
        id=run_id or new_id(suite.name, kind),
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        kind=kind,
        suite=suite,
        preset=preset,
        quick=quick,
        settings=settings_of(config),
        machine=machine.facts,
        candidates=candidates or {},
    )
    path = config.runs / manifest.id
    if (path / MANIFEST).exists():
        folder = SuiteFolder(path)
        require_same(folder.manifest, manifest)
        return folder
    return SuiteFolder.create(config.runs, manifest)


def settings_in(folder: SuiteFolder, config: Config) -> Config:
    """Settings that a run was begun with, where things lie now.

    Raises:
        RunError: this version knows other settings.
    """
    kept = {**folder.manifest.settings, "runs": str(config.runs), "gpu": config.gpu}
    try:
        return Config.model_validate(kept)
    except ValidationError as error:
        told = str(error).splitlines()[1]
        raise RunError(f"suite run {folder.manifest.id} has settings of another version ({told})") from error


def with_threads(config: Config) -> Config:
    """Settings with the threads that each arm gets: on a GPU, where tasks share the machine, those of a task's share.

    They are part of the run, so that it means the same on a machine with more cores or GPUs, and with other `--jobs`.
    """
    if config.target != "cuda" or config.threads is not None:
        return config
    return config.model_copy(update={"threads": min(CORES_A_TASK, len(own_cores()))})


def local_pool(config: Config, kind: SuiteKind, machine: Machine, jobs: int | None, gpus: str) -> LocalPool:
    """Seats on this machine.

    Args:
        config: says the target.
        kind: what is done.
        machine: its devices.
        jobs: tasks at a time (on a GPU: on each); None takes what is right for the target: on a GPU, as many as have
            cores of their own.
        gpus: "all", or indices separated by commas.

    Raises:
        ConfigError: there is no such GPU, or tasks would disturb each other's timing.
    """
    if config.target == "cuda":
        chosen = gpu_indices(gpus, len(machine.gpu_bytes))
        cores = Cores(own_cores(), threads_of(config))
        places = jobs or min(max(cores.disjoint // len(chosen), LEAST_PLACES), MOST_PLACES)
        return LocalPool([Seat(index, places, machine.gpu_bytes[index]) for index in chosen], cores)
    if jobs and jobs > 1 and kind != "audit":
        raise ConfigError(
            f"--jobs {jobs}: on a CPU, timing and other work share the cores, so one task runs at a time"
        )
    return LocalPool([Seat(places=jobs or 1)])


def ray_pool(config: Config, address: str, takes: str | None) -> Pool:
    """An existing Ray cluster.

    Raises:
        MissingExtraError: Ray is not installed.
        RunError: there is no such cluster, or it lacks what a task takes.
    """
    return RayPool(address, parse_takes(takes, config.target, threads_of(config)))


def gpu_indices(text: str, count: int) -> tuple[int, ...]:
    """GPUs from "all" or "0,2".

    Raises:
        ConfigError: there is no such GPU.
    """
    if text == "all":
        return tuple(range(count))
    chosen = [item.strip() for item in text.split(",") if item.strip()]
    wrong = [item for item in chosen if not item.isdecimal() or int(item) >= count]
    if wrong or not chosen:
        raise ConfigError(f"--gpus {text}: torch sees {count}; give 'all' or indices from 0")
    return tuple(dict.fromkeys(int(item) for item in chosen))
