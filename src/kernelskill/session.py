"""Start a run, carry it on to its end (also after a kill), and leave its answer in its folder."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from kernelskill.answer import best_source
from kernelskill.config import (
    Config,
    build_evaluator,
    build_parts,
    describe_gpu,
    device_name,
    gpu_name,
    require_model,
    threads_of,
)
from kernelskill.errors import RunError
from kernelskill.journal import MANIFEST, Journal, load_run, write_atomically
from kernelskill.loop import optimize
from kernelskill.protocols import Progress
from kernelskill.records import Run, Scalar, Task
from kernelskill.scratch import sweep

BEST = "best.py"
REPORT = "report.html"


def begin(config: Config, load: Callable[[Path], Task]) -> Path:
    """Make a run folder for a task.

    Args:
        config: settings, written into the run.
        load: reads the task; what it must keep beside the run (a pickled module) goes into the folder given.

    Returns:
        The run's folder.
    """
    require_model(config)
    config.runs.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=config.runs))
    try:
        task = load(staging)
        created = datetime.now(UTC)
        folder = _unused(config.runs, f"{created:%Y%m%d-%H%M%S}-{task.id}")
        if task.reference.path:
            moved = (folder / Path(task.reference.path).name).resolve()
            task = task.model_copy(
                update={"reference": task.reference.model_copy(update={"path": str(moved)})}
            )
        staging.chmod(0o755)
        staging.rename(folder)
    except BaseException:  # whatever stopped us, an unborn run leaves no folder behind
        shutil.rmtree(staging, ignore_errors=True)
        raise
    manifest = Run(
        id=folder.name,
        created=created.isoformat(timespec="seconds"),
        task=task,
        target=config.target,
        budget=config.budget,
        config=config.model_dump(mode="json"),
        machine=describe_machine(config),
    )
    Journal.create(folder, manifest).close()
    return folder


def carry_on(folder: Path, progress: Progress) -> Run:
    """Run or resume: walk the loop over the journal, then write best.py, run.json and report.html.

    Raises:
        RunError: the folder holds no run, or another process is working on it.
    """
    sweep()
    manifest = load_run(folder)
    config = Config.model_validate(manifest.config)
    require_model(config)
    journal = Journal(folder)
    try:
        evaluator = build_evaluator(config, manifest.task)
        try:
            optimize(
                manifest.task,
                evaluator,
                lambda workload: build_parts(config, manifest.task, workload, evaluator, folder),
                manifest.budget,
                journal,
                progress,
            )
        finally:
            evaluator.close()
        return _settle(folder)
    finally:
        progress.done()
        journal.close()


def find_run(config: Config, name: str) -> Path:
    """The folder of a run, by path, id, or an unambiguous part of its id ("last" = the newest).

    Raises:
        RunError: none or several fit.
    """
    direct = Path(name)
    if (direct / MANIFEST).exists():
        return direct
    runs = list_runs(config)
    if name == "last" and runs:
        return runs[-1]
    found = [folder for folder in runs if name in folder.name]
    exact = [folder for folder in found if folder.name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise RunError(f"{name!r} fits {len(found)} runs: {', '.join(item.name for item in found[:5])}")
    raise RunError(f"no run {name!r} in {config.runs}; list runs with: kernelskill runs")


def list_runs(config: Config) -> list[Path]:
    """Folders of all runs, oldest first."""
    return sorted(path.parent for path in config.runs.glob(f"*/{MANIFEST}"))


def describe_machine(config: Config) -> dict[str, Scalar]:
    """What the numbers of this run depend on."""
    versions = {f"{name}_version": _version(name) for name in ("kernelskill", "torch", "numpy")}
    return {
        "device": gpu_name(config) if config.target == "cuda" else device_name(),
        "threads": threads_of(config),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python_version": platform.python_version(),
        **versions,
        **(describe_gpu(config) if config.target == "cuda" else {}),
    }


def _settle(folder: Path) -> Run:
    """Write the answer of a finished run; doing it twice gives the same files."""
    from kernelskill.report import render_page

    run = load_run(folder)
    write_atomically(folder / BEST, best_source(run))
    write_atomically(folder / MANIFEST, run.model_dump_json(indent=2))
    write_atomically(folder / REPORT, render_page(run))
    return run


def _unused(parent: Path, name: str) -> Path:
    """`name`, or with a number where two runs of one task begin in the same second."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def gpu_seconds() -> dict[str, float]:
    """Seconds that this process has held GPUs so far, "alone" and "shared", and "waited" for them."""
    from kernelskill.evaluation.cuda.lease import HELD_S

    return dict(HELD_S)
