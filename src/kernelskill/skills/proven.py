"""What evidence proves of a skill's settings: where to begin with it, and what may go into a first version.

A setting is an action with its parameters. Its verified rows in like contexts give an expected gain over the base,
shrunk towards none: nothing is believed of a value because a card hopes for it. It is proven where at least `TRIES`
rows agree so well that the lower end of the one-sided 95 % interval is still a gain.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kernelskill.records import Edit, Json, Scalar
from kernelskill.skills.experience import Context, Evidence
from kernelskill.skills.ranking import LIKE, ONE_SIDED_95, estimate

BASE = "base"
"""What a row is compared to where it tells of an edit; first versions are compared to eager."""
TRIES = 2
"""One gain may be chance."""


class Setting(NamedTuple):
    """Parameters that paid."""

    action: str
    parameters: dict[str, Scalar]
    log_speedup: float
    """Expected of the whole program."""


def proven(rows: Sequence[Evidence], context: Context) -> list[Setting]:
    """Settings of one skill that are proven in a context, best first.

    Args:
        rows: of one skill.
        context: where it is to be used.
    """
    groups: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for row in rows:
        parameters = _parameters(row.parameters)
        told = row.verified and row.compared_to == BASE and row.context.similarity(context) >= LIKE
        if told and parameters is not None:
            groups[row.action, json.dumps(parameters, sort_keys=True)].append(row)
    found = []
    for (action, text), like in sorted(groups.items()):
        known = estimate(0.0, like, context)
        if len(like) >= TRIES and known.mean > ONE_SIDED_95 * known.deviation:
            found.append(Setting(action, json.loads(text), known.mean))
    return sorted(found, key=lambda item: -item.log_speedup)


def fitting(edit: Edit, settings: Sequence[Setting]) -> tuple[Edit, float] | None:
    """The edit at the first of the settings that its space holds, and the log speedup expected; None where none is."""
    for setting in settings:
        if setting.action == edit.action and _holds(edit, setting.parameters):
            begun = edit
            for name, value in setting.parameters.items():
                begun = begun.changed(name, value)
            return begun, setting.log_speedup
    return None


def _holds(edit: Edit, parameters: dict[str, Scalar]) -> bool:
    return set(parameters) == set(edit.parameters) and all(
        value == edit.parameters[name] or value in edit.space.get(name, ())
        for name, value in parameters.items()
    )


def _parameters(told: Json) -> dict[str, Scalar] | None:
    """The one set of parameters that a row tells of; None where several edits had different ones."""
    sets = told if isinstance(told, list) else [told]
    alike = bool(sets) and all(isinstance(item, dict) and item == sets[0] for item in sets)
    return sets[0] if alike else None
