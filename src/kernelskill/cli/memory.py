"""The evidence of all runs: show it, hand it on, take it in, forget it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kernelskill.cli.options import ConfigOption, JsonFlag, guarded, settings_of

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Long-term evidence: which skill paid where, over all runs.",
)
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Evidence file; default: that of the settings.")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE")]


@app.command()
def show(
    skill: Annotated[str | None, typer.Option("--skill", help="Of one skill only.")] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is remembered, per skill and context, and where a skill is suspended."""

    def work() -> dict[str, Any]:
        from kernelskill.skills.remembered import HEAD, remembered

        opened = _store(config, store)
        rows = opened.rows(skill)
        found = remembered(rows)
        if not as_json:
            if found:
                print(HEAD)
            for item in found:
                print(item)
            print(f"{len(rows)} rows of {len({row.run for row in rows})} runs in {opened.path}")
        return {
            "document": {
                "store": str(opened.path),
                "rows": len(rows),
                "remembered": [item.model_dump(mode="json") for item in found],
            }
        }

    guarded(work, as_json)


@app.command()
def export(
    file: FileArgument, store: StoreOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Write all rows as JSON lines, oldest first."""

    def work() -> dict[str, Any]:
        from kernelskill.errors import StoreError

        if file.exists():
            raise StoreError(f"{file} exists; give another name, nothing is overwritten")
        count = _store(config, store).export(file)
        if not as_json:
            print(f"{count} rows written to {file}")
        return {"document": {"rows": count, "file": str(file)}}

    guarded(work, as_json)


@app.command("import")
def import_rows(
    file: FileArgument, store: StoreOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Add the rows of a file that export wrote; rows that are there already stay as they are."""

    def work() -> dict[str, Any]:
        return _added(_store(config, store).read_export(file), file, as_json)

    guarded(work, as_json)


@app.command()
def merge(
    file: FileArgument, store: StoreOption = None, config: ConfigOption = None, as_json: JsonFlag = False
) -> None:
    """Add the rows of another evidence store (an SQLite file); that file stays as it is."""

    def work() -> dict[str, Any]:
        return _added(_store(config, store).merge(file), file, as_json)

    guarded(work, as_json)


@app.command()
def forget(
    skill: Annotated[str | None, typer.Option(help="Rows of this skill.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Rows of this device; a trailing * fits a beginning.")
    ] = None,
    torch: Annotated[str | None, typer.Option(help="Rows made with this torch, such as 2.6*.")] = None,
    driver: Annotated[str | None, typer.Option(help="Rows made with this driver, such as 550*.")] = None,
    run: Annotated[str | None, typer.Option(help="Rows of this run.")] = None,
    task: Annotated[str | None, typer.Option(help="Rows of this task.")] = None,
    before: Annotated[str | None, typer.Option(help="Rows older than this date, YYYY-MM-DD.")] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove the rows that fit everything given; at least one choice is needed."""

    def work() -> dict[str, Any]:
        opened = _store(config, store)
        chosen = {
            "skill": skill,
            "device": device,
            "torch": torch,
            "driver": driver,
            "run": run,
            "task": task,
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        count = opened.forget(before=before or "", **given)
        if not as_json:
            print(f"{count} rows forgotten in {opened.path}")
        return {"document": {"forgotten": count, "store": str(opened.path)}}

    guarded(work, as_json)


def _store(config: Path | None, path: Path | None) -> Any:
    from kernelskill.errors import ConfigError
    from kernelskill.skills import EvidenceStore

    chosen = path or settings_of(config).evidence
    if chosen is None:
        raise ConfigError("the settings keep no evidence; name a file with --store")
    return EvidenceStore(chosen)


def _added(count: int, file: Path, as_json: bool) -> dict[str, Any]:
    if not as_json:
        print(f"{count} new rows from {file}")
    return {"document": {"new": count, "file": str(file)}}
