"""Whole suites: add, run, resume, judge others' kernels, score, compare, audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kernelskill.cli.options import (
    AgentsOption,
    ConfigOption,
    JsonFlag,
    MaxUsdOption,
    ModelOption,
    PrecisionOption,
    RunsOption,
    SandboxOption,
    TargetOption,
    ThreadsOption,
    guarded,
    settings_of,
)
from kernelskill.cli.suite_work import begun, labels, published, settings_with, worked

app = typer.Typer(
    help="Whole suites of tasks: run them, resume them, score them, compare them, judge others' kernels.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="SUITE", help="A suite's name, or a folder of KernelBench-style files.")
]
FolderArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Suite run id, a part of it, its folder, or 'last'.")
]
LevelOption = Annotated[
    str | None, typer.Option("--level", help="Levels, comma-separated: 1,2,3; default: all.")
]
TasksOption = Annotated[
    str | None,
    typer.Option("--tasks", help="Tasks, comma-separated: 1-20,40 or LEVEL/NUMBER or names; default: all."),
]
IdOption = Annotated[
    str, typer.Option("--id", help="Name of the run; the same id and settings carry an unfinished one on.")
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, help="Tasks at a time on each GPU; default: one for every two cores. 1 on a CPU."
    ),
]
GpusOption = Annotated[str, typer.Option("--gpus", help="Which GPUs: all, or indices such as 0,1.")]
RayOption = Annotated[
    str | None, typer.Option("--ray", help="Work on a Ray cluster instead: auto, or its address.")
]
RayTakesOption = Annotated[
    str | None, typer.Option("--ray-takes", help="What a task takes of the cluster, e.g. GPU=1.")
]
ToleranceOption = Annotated[
    str | None, typer.Option(help="relative, kernelbench (allclose 1e-4) or kernelbench-v0 (allclose 1e-2).")
]
PresetOption = Annotated[
    str, typer.Option("--preset", help="Rules of others: paper (TF32, allclose 1e-2) or kernelbench.")
]
AllowOption = Annotated[str | None, typer.Option(help="Labels that may win, comma-separated.")]
AuditOption = Annotated[
    Path | None, typer.Option("--audit", help="Table of tasks to set aside; default: the one shipped.")
]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    source: Annotated[str, typer.Option("--from", help="Folder, or address that git can clone.")],
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Give a folder of tasks a name; level1, level2, ... or a flat folder. Nothing of it is copied."""

    def work() -> dict[str, Any]:
        from kernelskill.suites import catalog

        suite = catalog.add(settings_of(config), name, source)
        levels = sorted({task.level for task in suite.tasks if task.level is not None})
        if not as_json:
            told = f" in levels {', '.join(map(str, levels))}" if levels else ""
            print(f"suite {suite.name}: {len(suite.tasks)} tasks{told}, in {suite.root}")
        return {"document": suite.model_dump(mode="json")}

    guarded(work, as_json)


@app.command("list")
def list_suites(
    name: Annotated[str | None, typer.Argument(metavar="[SUITE]", help="List its tasks.")] = None,
    runs: RunsOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List suites and runs of suites, or the tasks of one suite."""

    def work() -> dict[str, Any]:
        from kernelskill.report import suite_terminal
        from kernelskill.suites import catalog
        from kernelskill.suites.folder import SuiteFolder, list_folders

        settings = settings_of(config, runs=runs)
        if name is not None:
            suite = catalog.find(settings, name)
            if not as_json:
                suite_terminal.print_tasks(suite)
            return {"document": suite.model_dump(mode="json")}
        suites = catalog.known_suites(settings)
        begun = [SuiteFolder(path) for path in list_folders(settings)]
        found = [(folder.manifest, len(folder.results())) for folder in begun]
        if not as_json:
            suite_terminal.print_suites(suites, found)
        told = [
            {"id": manifest.id, "suite": manifest.suite.name, "kind": manifest.kind, "done": done,
             "tasks": len(manifest.suite.tasks)}
            for manifest, done in found
        ]  # fmt: skip
        return {"document": {"suites": [suite.model_dump(mode="json") for suite in suites], "runs": told}}

    guarded(work, as_json)


@app.command()
def run(
    name: NameArgument,
    level: LevelOption = None,
    tasks: TasksOption = None,
    run_id: IdOption = "",
    preset: PresetOption = "",
    target: TargetOption = None,
    precision: PrecisionOption = None,
    tolerance: ToleranceOption = None,
    allow: AllowOption = None,
    rounds: Annotated[int | None, typer.Option(min=0, help="Rounds a task.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Wall seconds a task.")] = None,
    patience: Annotated[int | None, typer.Option(min=1, help="Rounds in a row without a gain.")] = None,
    agents: AgentsOption = None,
    model: ModelOption = None,
    max_usd: MaxUsdOption = None,
    jobs: JobsOption = None,
    gpus: GpusOption = "all",
    ray: RayOption = None,
    ray_takes: RayTakesOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption = None,
    no_evidence: Annotated[bool, typer.Option("--no-evidence", help="Read and keep no evidence.")] = False,
    audit: AuditOption = None,
    require_sandbox: SandboxOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make every selected task faster; survives kills, and ends with score, table and page."""

    def work() -> dict[str, Any]:
        settings = settings_with(
            config, preset, target=target, precision=precision, tolerance=tolerance, allow=labels(allow),
            threads=threads, runs=runs, require_sandbox=require_sandbox,
            budget={"rounds": rounds, "seconds": seconds, "patience": patience}, agents=labels(agents),
            llm={"model": model, "limits": {"usd": max_usd}},
        )  # fmt: skip
        if no_evidence:
            settings = settings.model_copy(update={"evidence": None})
        folder, machine = begun(settings, "run", name, level, tasks, run_id, preset)
        return worked(folder, settings, machine, jobs, gpus, ray, ray_takes, audit, as_json)

    guarded(work, as_json)


@app.command()
def resume(
    name: FolderArgument,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do tasks again that ended as failed.")
    ] = False,
    jobs: JobsOption = None,
    gpus: GpusOption = "all",
    ray: RayOption = None,
    ray_takes: RayTakesOption = None,
    runs: RunsOption = None,
    audit: AuditOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Carry on a suite run; no finished task is done again, and a task that was cut short goes on where it was."""

    def work() -> dict[str, Any]:
        from kernelskill.suites.folder import find_folder, require_same
        from kernelskill.suites.machine import machine_of
        from kernelskill.suites.start import settings_in

        here = settings_of(config, runs=runs)
        folder = find_folder(here, name)
        settings = settings_in(folder, here)
        machine = machine_of(settings)
        require_same(folder.manifest, folder.manifest.model_copy(update={"machine": machine.facts}))
        return worked(
            folder, settings, machine, jobs, gpus, ray, ray_takes, audit, as_json, retry=retry_failed
        )

    guarded(work, as_json)


@app.command()
def status(
    name: FolderArgument = "last",
    runs: RunsOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """How far a suite run is."""

    def work() -> dict[str, Any]:
        from kernelskill.report import suite_terminal
        from kernelskill.suites.folder import find_folder

        folder = find_folder(settings_of(config, runs=runs), name)
        results, left, running = folder.results(), folder.left(), folder.running()
        if not as_json:
            suite_terminal.print_status(folder.manifest, results, running, len(left))
        return {
            "document": {
                "id": folder.manifest.id, "folder": str(folder.path), "done": len(results), "left": len(left),
                "running": running, "tasks": len(folder.manifest.suite.tasks),
            }
        }  # fmt: skip

    guarded(work, as_json)


@app.command()
def score(
    name: Annotated[
        str, typer.Argument(metavar="RUN|SUITE", help="A suite run; with --candidates, a suite.")
    ] = "last",
    candidates: Annotated[
        Path | None, typer.Option("--candidates", help="Folder of others' kernels to judge.")
    ] = None,
    level: LevelOption = None,
    tasks: TasksOption = None,
    run_id: IdOption = "",
    preset: PresetOption = "",
    quick: Annotated[bool, typer.Option("--quick", help="Screen only; no re-timing.")] = False,
    target: TargetOption = None,
    precision: PrecisionOption = None,
    tolerance: ToleranceOption = None,
    allow: AllowOption = None,
    jobs: JobsOption = None,
    gpus: GpusOption = "all",
    ray: RayOption = None,
    ray_takes: RayTakesOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption = None,
    audit: AuditOption = None,
    require_sandbox: SandboxOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a suite run anew; or judge a folder of kernels that others wrote, and score those."""

    def work() -> dict[str, Any]:
        from kernelskill.suites.folder import find_folder

        settings = settings_with(
            config, preset, target=target, precision=precision, tolerance=tolerance, allow=labels(allow),
            threads=threads, runs=runs, require_sandbox=require_sandbox,
        )  # fmt: skip
        if candidates is None:
            return published(find_folder(settings, name), audit, as_json)
        folder, machine = begun(settings, "candidates", name, level, tasks, run_id, preset, candidates, quick)
        return worked(folder, settings, machine, jobs, gpus, ray, ray_takes, audit, as_json)

    guarded(work, as_json)


@app.command()
def compare(
    first: FolderArgument,
    second: FolderArgument,
    runs: RunsOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Set two suite runs side by side, task by task."""

    def work() -> dict[str, Any]:
        from kernelskill.report import suite_terminal
        from kernelskill.suites.compare import compare as compared
        from kernelskill.suites.folder import differences, find_folder

        settings = settings_of(config, runs=runs)
        one, other = find_folder(settings, first), find_folder(settings, second)
        found = compared(
            (one.manifest.id, other.manifest.id), one.results(), other.results(),
            tuple(differences(one.manifest, other.manifest)),
        )  # fmt: skip
        if not as_json:
            suite_terminal.print_comparison(found)
        return {"document": found.model_dump(mode="json")}

    guarded(work, as_json)


@app.command()
def baselines(
    name: NameArgument,
    level: LevelOption = None,
    tasks: TasksOption = None,
    run_id: IdOption = "",
    target: TargetOption = None,
    precision: PrecisionOption = None,
    jobs: JobsOption = None,
    gpus: GpusOption = "all",
    ray: RayOption = None,
    ray_takes: RayTakesOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Time the stock arms of every selected task; on a GPU at both flag settings, with and without TF32."""

    def work() -> dict[str, Any]:
        settings = settings_with(config, "", target=target, precision=precision, threads=threads, runs=runs)
        folder, machine = begun(settings, "baselines", name, level, tasks, run_id)
        return worked(folder, settings, machine, jobs, gpus, ray, ray_takes, None, as_json)

    guarded(work, as_json)


@app.command()
def audit(
    name: NameArgument,
    level: LevelOption = None,
    tasks: TasksOption = None,
    run_id: IdOption = "",
    target: TargetOption = None,
    jobs: JobsOption = None,
    gpus: GpusOption = "all",
    ray: RayOption = None,
    ray_takes: RayTakesOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the tasks that can prove nothing, and say why; leaves audit.tsv for --audit."""

    def work() -> dict[str, Any]:
        settings = settings_with(config, "", target=target, threads=threads, runs=runs)
        folder, machine = begun(settings, "audit", name, level, tasks, run_id)
        return worked(folder, settings, machine, jobs, gpus, ray, ray_takes, None, as_json)

    guarded(work, as_json)
