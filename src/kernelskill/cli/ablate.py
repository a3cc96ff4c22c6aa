"""What parts of the system are worth: the same suite with and without them, at equal budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelskill.cli.options import ConfigOption, JsonFlag, RunsOption, TargetOption, guarded, settings_of
from kernelskill.cli.suite import IdOption, JobsOption, LevelOption, NameArgument, TasksOption
from kernelskill.cli.suite_work import begun, worked

if TYPE_CHECKING:
    from kernelskill.config import Config
    from kernelskill.suites.folder import SuiteFolder


def ablate(
    name: NameArgument,
    without: Annotated[
        str, typer.Option(help="Parts to go without, one run each: long-term,short-term,gate.")
    ] = "",
    search: Annotated[
        str,
        typer.Option(help="Other searches, one run each: beam,evolutionary,bandit (greedy is the default)."),
    ] = "",
    level: LevelOption = None,
    tasks: TasksOption = None,
    run_id: IdOption = "ablation",
    rounds: Annotated[int | None, typer.Option(min=0, help="Rounds a task, the same for all.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Wall seconds a task, the same for all.")
    ] = None,
    target: TargetOption = None,
    jobs: JobsOption = None,
    runs: RunsOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a suite whole and once for each part left out or search exchanged, at equal budgets, and compare.

    Nothing is learnt from one run for the next: evidence is read by none of them, and written by none. An interrupted
    ablation goes on when it is asked for again.
    """

    def work() -> dict[str, Any]:
        from kernelskill.report import suite_terminal
        from kernelskill.suites.compare import compare
        from kernelskill.suites.folder import differences

        settings = settings_of(
            config, target=target, runs=runs, budget={"rounds": rounds, "seconds": seconds}
        ).model_copy(update={"evidence": None})
        variants = variants_of(settings, without, search)
        folders: dict[str, SuiteFolder] = {}
        for word, variant in variants.items():
            folder, machine = begun(variant, "run", name, level, tasks, f"{run_id}-{word}")
            worked(folder, variant, machine, jobs, "all", None, None, None, as_json)
            folders[word] = folder
        whole = folders.pop("whole")
        found = [
            compare(
                (whole.manifest.id, folder.manifest.id), whole.results(), folder.results(),
                tuple(differences(whole.manifest, folder.manifest)),
            )
            for folder in folders.values()
        ]  # fmt: skip
        if not as_json:
            for item in found:
                suite_terminal.print_comparison(item)
        return {"document": {"comparisons": [item.model_dump(mode="json") for item in found]}}

    guarded(work, as_json)


def variants_of(settings: Config, without: str, search: str) -> dict[str, Config]:
    """Word -> settings: "whole" first, then one for each part left out and each other search.

    Raises:
        ConfigError: nothing is asked for, or there is no such part or search.
    """
    from kernelskill.config import changed_config
    from kernelskill.errors import ConfigError

    found = {"whole": settings}
    for part in _words(without):
        found[f"without-{part}"] = changed_config(settings, without=(part,))
    for other in _words(search):
        found[other] = changed_config(settings, search=other)
    if len(found) == 1:
        raise ConfigError("nothing to compare with: give --without PARTS, --search NAMES, or both")
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
