"""The skill library: what is in it, why the gate admits or refuses, whether it is sound, how to begin a skill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kernelskill.cli.options import (
    ConfigOption,
    InitOption,
    InputsOption,
    JsonFlag,
    RunsOption,
    TargetOption,
    guarded,
    settings_of,
)

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="The skill library: list, show, explain its decisions, lint, begin a new skill.",
)
FoldersOption = Annotated[
    list[Path] | None, typer.Option("--skills", help="Further skill folder; may be repeated.")
]


@app.command("list")
def list_skills(skills: FoldersOption = None, config: ConfigOption = None, as_json: JsonFlag = False) -> None:
    """List all skills: bundled, of installed packages, and of folders named."""

    def work() -> dict[str, Any]:
        from kernelskill.skills import read_cards
        from kernelskill.skills.sources import folders

        cards = read_cards(folders(settings_of(config, skills=skills or None).skills))
        if not as_json:
            print(f"{'id':<32}{'kind':<12}{'works on':<10}{'targets':<10}{'how':<8}title")
            for card in cards:
                how = "recipe" if card.executable else ""
                print(
                    f"{card.id:<32}{card.kind:<12}{card.subject:<10}{'+'.join(card.targets):<10}{how:<8}{card.title}"
                )
        return {"document": {"skills": [_entry(card) for card in cards]}}

    guarded(work, as_json)


@app.command()
def show(
    skill: Annotated[str, typer.Argument(metavar="ID")],
    skills: FoldersOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one card whole."""

    def work() -> dict[str, Any]:
        from kernelskill.skills import ExpertLibrary

        library = ExpertLibrary(None, extra=settings_of(config, skills=skills or None).skills)
        card = library.card(skill)
        if not as_json:
            print(f"{card.path}\n{card.path.read_text(encoding='utf-8')}", end="")
        return {"document": {**_entry(card), "body": card.body}}

    guarded(work, as_json)


@app.command()
def explain(
    subject: Annotated[
        str,
        typer.Argument(metavar="RUN|TASK", help="Run id, a part of it, 'last'; or a task as of optimize."),
    ],
    inputs: InputsOption = None,
    init: InitOption = None,
    skills: FoldersOption = None,
    config: ConfigOption = None,
    target: TargetOption = None,
    runs: RunsOption = None,
    each: Annotated[bool, typer.Option("--each", help="Each refusal on a line of its own.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say why each skill was admitted or refused: per round of a run, or on the captured graph of a task."""

    def work() -> dict[str, Any]:
        from kernelskill import session
        from kernelskill.errors import RunError

        settings = settings_of(config, target=target, runs=runs, skills=skills or None)
        try:
            folder = session.find_run(settings, subject)
        except RunError:
            if not (Path(subject.partition(":")[0]).is_file() or ":" in subject):
                raise  # no task either
            explained = [_of_task(settings, subject, inputs, init)]
        else:
            explained = _of_run(folder)
        if not as_json:
            print("\n\n".join(item.text(each=each) for item in explained))
        return {"document": {"explained": [item.document() for item in explained]}}

    guarded(work, as_json)


@app.command()
def lint(
    folder: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER]...", help="Folders to check; default: all skills."),
    ] = None,
    skills: FoldersOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check skills: fields, ids, facts, conditions, recipes, examples; and report coverage. Exit code 1: flaws."""

    def work() -> dict[str, Any]:
        from kernelskill.skills.sources import folders
        from kernelskill.skills.stock import examine

        found = examine(folder or folders(settings_of(config, skills=skills or None).skills))
        if not as_json:
            print(found)
        return {"document": found.model_dump(mode="json"), "code": 1 if found.flaws else 0}

    guarded(work, as_json)


@app.command()
def new(
    skill: Annotated[str, typer.Argument(metavar="ID", help="Small letters and hyphens, as stream-stores.")],
    folder: Annotated[Path, typer.Option("--in", help="Folder of skills that it goes into.")] = Path(
        "skills"
    ),
    kind: Annotated[str, typer.Option(help="micro, structural or knowledge.")] = "micro",
    as_json: JsonFlag = False,
) -> None:
    """Begin a skill: a folder with a card and a recipe to fill in."""

    def work() -> dict[str, Any]:
        from kernelskill.errors import ConfigError
        from kernelskill.skills.template import write_template

        if kind not in ("micro", "structural", "knowledge"):
            raise ConfigError(f"--kind {kind}: one of micro, structural, knowledge")
        path = write_template(folder, skill, kind)  # type: ignore[arg-type]  # checked above
        if not as_json:
            print(f"{path}\nfill it in, then check it with: kernelskill skills lint {folder}")
        return {"document": {"path": str(path)}}

    guarded(work, as_json)


class Explained(NamedTuple):
    """The gate's answer about one base."""

    title: str
    retrieval: Any
    facts: Any

    def text(self, *, each: bool) -> str:
        """For a person."""
        from kernelskill.skills import explain as in_words

        refusals: Any = "each" if each else "grouped"
        return f"{self.title}\n{in_words(self.retrieval, self.facts, refusals=refusals)}"

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "title": self.title,
            "retrieval": self.retrieval.model_dump(mode="json"),
            "facts": self.facts.model_dump(mode="json")["facts"],
        }


def _of_run(folder: Path) -> list[Explained]:
    """One answer a round, as it was recorded."""
    from kernelskill.errors import RunError
    from kernelskill.journal import load_run

    run = load_run(folder)
    if not run.rounds:
        raise RunError(
            f"{run.id} has no round: the gate was asked about its captured graph alone; "
            f"ask again with: kernelskill skills explain {run.task.origin}"
        )
    return [
        Explained(f"{run.id}, round {item.index}, base {item.base_id}", item.retrieval, item.facts)
        for item in run.rounds
    ]


def _of_task(settings: Any, task: str, inputs: str | None, init: str | None) -> Explained:
    """The answer before anything is written: on the captured graph and its floor alone."""
    from kernelskill.config import build_evaluator, build_floor, device_name, gpu_name
    from kernelskill.features import ExpertFeatureReader
    from kernelskill.skills import EvidenceStore, ExpertLibrary
    from kernelskill.tasks import load_task

    loaded = load_task(task, inputs=inputs, init=init, precision=settings.precision)
    evaluator = build_evaluator(settings, loaded)
    try:
        workload = evaluator.describe()
    finally:
        evaluator.close()
    model = build_floor(settings)
    reader = ExpertFeatureReader(model.ceilings(), settings.target)
    facts = reader.read_graph(workload, model.floor(workload))
    store = EvidenceStore(settings.evidence) if settings.evidence else None
    device = gpu_name(settings) if settings.target == "cuda" else device_name()
    library = ExpertLibrary(store, extra=settings.skills, device=device)
    note = f" (not captured: {workload.capture_error})" if workload.graph is None else ""
    return Explained(f"{loaded.name}, captured graph{note}", library.retrieve(facts), facts)


def _entry(card: Any) -> dict[str, Any]:
    return {
        **card.model_dump(mode="json", exclude={"body"}),
        "executable": card.executable,
    }
