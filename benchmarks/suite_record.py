"""A suite run -> what is kept of it: `python benchmarks/suite_record.py RUN_FOLDER results/NAME [--audit FILE]`.

NAME.jsonl        first line: what was asked for, machine, stretches of work; then a line a task, in the suite's order
NAME.score.json   the score
NAME.html         the page

Numbers keep six digits. Where things lay on the machine that measured is left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelskill.records import Suite, SuiteManifest, TaskResult
from kernelskill.report.suite_page import render_suite
from kernelskill.report.suite_story import suite_command
from kernelskill.suites import audit
from kernelskill.suites.folder import PLACES, SuiteFolder
from kernelskill.suites.score import score

DIGITS = 6
OF_THE_RUN = {"key", "session", "folder"}
"""Of a line: kept elsewhere, or meaningless without the run's folder."""


def rounded(value: Any) -> Any:
    """With six digits a number, at any depth."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def without_places(folder: SuiteFolder) -> Callable[[str], str]:
    """Text in which no path of the measuring machine is left."""
    places = {str(folder.path.resolve()): "RUN", str(Path.home()): "HOME"}
    for name in ("runs", "suites", "cache", "evidence"):
        places[str(folder.manifest.settings.get(name) or "")] = name.upper()
    places[folder.manifest.suite.root] = "SUITE"
    known = sorted((place for place in places if place.startswith("/")), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, known)) or r"(?!)")
    return lambda text: pattern.sub(lambda found: places[found[0]], text)


def kept_manifest(manifest: SuiteManifest) -> SuiteManifest:
    """What was asked for, without where it lay."""
    suite = manifest.suite
    tasks = tuple(task.model_copy(update={"path": ""}) for task in suite.tasks)
    origin = suite.origin if "://" in suite.origin else suite.name
    return manifest.model_copy(
        update={
            "suite": Suite(name=suite.name, root="", origin=origin, commit=suite.commit, tasks=tasks),
            "settings": {name: value for name, value in manifest.settings.items() if name not in PLACES},
        }
    )


def header(folder: SuiteFolder, manifest: SuiteManifest) -> dict[str, Any]:
    """The first line."""
    told = manifest.model_dump(mode="json", exclude={"suite": {"tasks", "root"}, "candidates": True})
    sessions = [item.model_dump(mode="json", exclude={"machine"}) for item in folder.sessions()]
    return {
        **told,
        "tasks": len(manifest.suite.tasks),
        "command": suite_command(manifest),
        "sessions": sessions,
    }


def line(result: TaskResult) -> dict[str, Any]:
    """A task's line."""
    told = result.model_dump(mode="json", exclude=OF_THE_RUN, exclude_defaults=True)
    return {"task": result.key, **told}


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description="Keep a suite run's results.")
    parser.add_argument("run", type=Path, help="folder of the suite run")
    parser.add_argument("target", type=Path, help="path of the files to write, without an ending")
    parser.add_argument("--audit", type=Path, help="table of tasks that are set aside")
    given = parser.parse_args()
    folder = SuiteFolder(given.run)
    manifest, clean = kept_manifest(folder.manifest), without_places(folder)
    order = {task.key: place for place, task in enumerate(manifest.suite.tasks)}
    results = [
        TaskResult.model_validate_json(clean(item.model_dump_json()))
        for item in sorted(folder.results(), key=lambda item: order[item.key])
    ]
    aside = audit.reasons(audit.load(manifest.suite, given.audit))
    found, sessions = score(manifest, results, folder.sessions(), aside), folder.sessions()
    lines = [header(folder, manifest), *map(line, results)]
    base = given.target
    base.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{base.name}.jsonl": "".join(json.dumps(rounded(item), allow_nan=False) + "\n" for item in lines),
        f"{base.name}.score.json": json.dumps(rounded(found.model_dump(mode="json")), indent=1) + "\n",
        f"{base.name}.html": render_suite(manifest, results, found, sessions),
    }
    for name, text in texts.items():
        (base.parent / name).write_text(text, encoding="utf-8")
        print(f"{base.parent / name}: {len(text.encode()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
