"""What the suite commands share: settings with a preset, the folder of a run, and the work on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kernelskill.cli.options import settings_of

if TYPE_CHECKING:
    from kernelskill.config import Config
    from kernelskill.records import Foreign, SuiteKind
    from kernelskill.suites.folder import SuiteFolder
    from kernelskill.suites.machine import Machine


def settings_with(file: Path | None, preset: str, **flags: Any) -> Any:
    """Settings from defaults, file, flags and preset."""
    from kernelskill.suites.presets import preset_settings

    return settings_of(file, **{**flags, **preset_settings(preset, flags)})


def labels(text: str | None) -> list[str] | None:
    """Words of a comma-separated flag."""
    return [label.strip() for label in text.split(",")] if text else None


def begun(
    settings: Config,
    kind: SuiteKind,
    name: str,
    level: str | None,
    tasks: str | None,
    run_id: str,
    preset: str = "",
    kernels: Path | None = None,
    quick: bool = False,
) -> tuple[SuiteFolder, Machine]:
    """The run's folder, new or begun before with the same settings, and the machine."""
    from kernelskill.suites import catalog, foreign, start
    from kernelskill.suites.machine import machine_of
    from kernelskill.suites.selection import select

    suite = select(catalog.find(settings, name), level, tasks)
    candidates: dict[str, tuple[Foreign, ...]] = {}
    if kernels is not None:
        candidates, strangers = foreign.match(suite, kernels)
        if level is None and tasks is None:
            suite = suite.model_copy(
                update={"tasks": tuple(task for task in suite.tasks if task.key in candidates)}
            )
        for stranger in strangers:
            print(f"kernelskill: {stranger} fits no task of {suite.name}, left out", file=sys.stderr)
    settings = start.with_threads(settings)
    machine = machine_of(settings)
    folder = start.begin(
        settings, kind, suite, machine, run_id=run_id, preset=preset, quick=quick, candidates=candidates
    )
    return folder, machine


def worked(
    folder: SuiteFolder,
    settings: Config,
    machine: Machine,
    jobs: int | None,
    gpus: str,
    ray: str | None,
    ray_takes: str | None,
    audit: Path | None,
    as_json: bool,
    retry: bool = False,
) -> dict[str, Any]:
    """Work on a suite run to its end, a line a task on standard error, then publish it."""
    from kernelskill.records import TaskOutcome
    from kernelskill.report import suite_terminal
    from kernelskill.suites import audit as audits
    from kernelskill.suites import start
    from kernelskill.suites.conductor import conduct
    from kernelskill.suites.machine import know_ceilings
    from kernelskill.suites.sizes import sizes_of

    manifest = folder.manifest
    settings = start.settings_in(folder, settings)
    sizes = sizes_of(settings, manifest.suite, audits.load(manifest.suite, audit))
    pool = (
        start.ray_pool(settings, ray, ray_takes)
        if ray
        else start.local_pool(settings, manifest.kind, machine, jobs, gpus)
    )
    watched = start.gpu_indices(gpus, len(machine.gpu_bytes)) if not ray else ()
    folder.hold()
    try:
        if retry:
            folder.forget({TaskOutcome.FAILED})
        if not as_json:
            print(f"suite run {manifest.id} in {folder.path}", file=sys.stderr)
        if watched and manifest.kind != "audit" and folder.left():
            know_ceilings(settings.model_copy(update={"gpu": watched[0]}))
        tell = (lambda *_: None) if as_json else suite_terminal.print_line
        conduct(
            folder, pool, machine=machine.facts, gpus=watched, sizes=sizes, tell=tell,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"interrupted; carry on with: kernelskill suite resume {manifest.id}", file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        folder.release()
        pool.close()
    return published(folder, audit, as_json)


def published(folder: SuiteFolder, audit: Path | None, as_json: bool) -> dict[str, Any]:
    """Score a run, write its table and page, and show it."""
    from kernelskill.report import suite_terminal
    from kernelskill.suites.publish import publish

    found = publish(folder, audit)
    results = folder.results()
    if not as_json:
        suite_terminal.print_score(found, results, folder.path)
    return {
        "document": {
            "folder": str(folder.path),
            "score": found.model_dump(mode="json"),
            "results": [item.model_dump(mode="json") for item in results],
        }
    }
