"""What this machine can do: the floor of a task, and whether all that is needed is here."""

from __future__ import annotations

from typing import Any

from kernelskill.cli.options import (
    ConfigOption,
    InitOption,
    InputsOption,
    JsonFlag,
    TargetOption,
    TaskArgument,
    ThreadsOption,
    guarded,
    settings_of,
)


def floor(
    task: TaskArgument,
    inputs: InputsOption = None,
    init: InitOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell the time below which no program can go on this machine, before any work is spent."""

    def work() -> dict[str, Any]:
        from kernelskill.config import build_evaluator, build_floor
        from kernelskill.report import print_floor
        from kernelskill.tasks import load_task

        settings = settings_of(config, target=target, threads=threads)
        loaded = load_task(task, inputs=inputs, init=init, precision=settings.precision)
        evaluator = build_evaluator(settings, loaded)
        try:
            workload = evaluator.describe()
        finally:
            evaluator.close()
        model = build_floor(settings)
        bound, ceilings = model.floor(workload), model.ceilings()
        if not as_json:
            print_floor(loaded, workload, bound, ceilings)
        return {
            "document": {
                "task": loaded.id,
                "floor": bound.model_dump(mode="json"),
                "ceilings": ceilings.model_dump(mode="json"),
                "findings": [finding.model_dump(mode="json") for finding in workload.findings],
            }
        }

    guarded(work, as_json)


def doctor(config: ConfigOption = None, as_json: JsonFlag = False) -> None:
    """Check this machine; what is missing is named with the command that installs it."""

    def work() -> dict[str, Any]:
        from kernelskill.doctor import examine
        from kernelskill.report import print_checks

        checks = examine(settings_of(config))
        if not as_json:
            print_checks(checks)
        failed = any(check.needed and not check.ok for check in checks)
        return {"document": {"checks": [check.model_dump() for check in checks]}, "code": 1 if failed else 0}

    guarded(work, as_json)
