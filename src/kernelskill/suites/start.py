"""Begin a suite run, or go on with one; and who works on it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pydantic import ValidationError

from kernelskill.config import Config, threads_of
from kernelskill.errors import ConfigError, RunError
from kernelskill.records import Foreign, Suite, SuiteKind, SuiteManifest
from kernelskill.suites.folder import MANIFEST, SuiteFolder, new_id, require_same, settings_of
from kernelskill.suites.machine import Machine
from kernelskill.suites.pool import LocalPool, Pool, Seat
from kernelskill.suites.ray_pool import RayPool, parse_takes

GPU_PLACES = 2
"""Tasks at a time on a GPU: one builds, captures and writes while the other times."""
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


def local_pool(config: Config, kind: SuiteKind, machine: Machine, jobs: int | None, gpus: str) -> LocalPool:
    """Seats on this machine.

    Args:
        config: says the target.
        kind: what is done.
        machine: its devices.
        jobs: tasks at a time (on a GPU: on each); None takes what is right for the target.
        gpus: "all", or indices separated by commas.

    Raises:
        ConfigError: there is no such GPU, or tasks would disturb each other's timing.
    """
    if config.target == "cuda":
        chosen = gpu_indices(gpus, len(machine.gpu_bytes))
        return LocalPool([Seat(index, jobs or GPU_PLACES, machine.gpu_bytes[index]) for index in chosen])
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
