"""What a suite run amounts to in a sentence; terminal and page say the same."""

from __future__ import annotations

import shlex

from kernelskill.records import Budget, SuiteManifest, SuiteScore
from kernelskill.report import numbers


def headline(score: SuiteScore) -> str:
    """One sentence."""
    whole = score.groups[0]
    unfinished = (
        f" ({score.finished} of {score.selected} tasks finished)" if score.finished < score.selected else ""
    )
    if score.kind in ("audit", "baselines"):
        aside = len(score.set_aside)
        done = "audited" if score.kind == "audit" else "timed"
        return f"{whole.tasks} tasks {done}{unfinished}: {aside} set aside, {whole.failed} could not be examined."
    means = (
        f"{numbers.ratio(whole.stock.geomean_all)} over best stock, "
        f"{numbers.ratio(whole.eager.geomean_all)} over eager"
    )
    return (
        f"{whole.success} of {whole.tasks} tasks have a verified candidate of their own{unfinished}; {whole.faster} "
        f"are faster than best stock beyond the noise. Geometric mean {means}."
    )


def suite_command(manifest: SuiteManifest) -> str:
    """A command that asks for the same again."""
    words = [
        "kernelskill",
        "suite",
        "score" if manifest.kind == "candidates" else manifest.kind,
        manifest.suite.name,
    ]
    settings = manifest.settings
    levels = {task.level for task in manifest.suite.tasks if task.level is not None}
    if levels:
        words += ["--level", ",".join(map(str, sorted(levels)))]
    words += ["--target", str(settings.get("target"))]
    if manifest.preset:
        words += ["--preset", manifest.preset]
    else:
        words += [
            "--precision",
            str(settings.get("precision")),
            "--tolerance",
            str(settings.get("tolerance")),
        ]
    if manifest.kind == "candidates":
        words += ["--candidates", "DIR"]
    return shlex.join([*words, *_further(manifest)])


def _further(manifest: SuiteManifest) -> list[str]:
    """Flags of settings that are not what they would be without them."""
    settings, usual = manifest.settings, Budget().model_dump()
    words = []
    if manifest.kind == "run":
        budget = settings.get("budget") or {}
        given = {name: budget.get(name, usual[name]) for name in ("rounds", "seconds", "patience")}
        for name, value in given.items():
            if value != usual[name] and value is not None:
                words += [f"--{name}", f"{value:g}"]
        agents = settings.get("agents") or ["expert"]
        words += ["--agents", ",".join(agents)] if agents != ["expert"] else []
    if settings.get("allow"):
        words += ["--allow", ",".join(settings["allow"])]
    if settings.get("threads") is not None:
        words += ["--threads", str(settings["threads"])]
    return [*words, *(["--quick"] if manifest.quick else [])]


def duration(seconds: float) -> str:
    """Wall time that may be hours: 2 h 05 min, 12 min, 42.0 s."""
    if seconds < 120:
        return numbers.seconds(seconds)
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
