"""A diagnosis turned into another plan for the same goal: milder parameters first, then without the suspect edit."""

from __future__ import annotations

from collections.abc import Iterator

from kernelskill.protocols import Memory, SkillLibrary
from kernelskill.records import Attempt, Diagnosis, Edit, Plan, Scalar

MILDER: dict[str, dict[str, tuple[Scalar, ...]]] = {
    "tile-too-big": {"block": (256, 128, 64), "unroll": (1,), "accumulators": (2, 1)},
    "memory": {"block": (256, 128, 64), "split": (1,)},
    "timeout": {"block": (256, 128), "unroll": (1,)},
    "crash": {"nontemporal": (False,), "vector_bits": (256, 128), "unroll": (1,)},
    "tolerance": {"accumulators": (8, 4), "split": (1,)},
}
"""Cause -> parameter -> values from the mildest change on."""

SUSPECTS: dict[str, tuple[str, ...]] = {
    "tolerance": ("cheaper-math", "simplify-algebra", "online-softmax"),
    "shape": ("direct-pooling", "single-pass-scan", "simplify-algebra"),
    "state": ("fuse-row-normalization", "remove-dead-code"),
}
"""Cause -> skills that are left out first; otherwise the last edit is."""


class ExpertRepairer:
    """Implements `protocols.Repairer`."""

    def __init__(self, library: SkillLibrary, memory: Memory) -> None:
        self._library = library
        self._memory = memory

    def repair(self, attempt: Attempt, diagnosis: Diagnosis) -> Plan | None:
        """The first milder plan that was not tried in this run; None when none is left."""
        tried = {
            tuple(edit.key for edit in item.plan.edits)
            for item in self._memory.attempts()
            if item.plan.base_id == attempt.plan.base_id
        }
        for edits, what in self._milder(attempt.plan.edits, diagnosis):
            if edits and tuple(edit.key for edit in edits) not in tried:
                return attempt.plan.model_copy(
                    update={
                        "edits": edits,
                        "skill": edits[-1].skill,
                        "reason": f"repair of {attempt.candidate.id} ({diagnosis.cause}): {what}",
                    }
                )
        return None

    def _milder(self, edits: tuple[Edit, ...], diagnosis: Diagnosis) -> Iterator[tuple[tuple[Edit, ...], str]]:
        for name, values in MILDER.get(diagnosis.cause, {}).items():
            for place, edit in enumerate(edits):
                for value in values:
                    if name in edit.parameters and edit.parameters[name] != value and _is_milder(edit, name, value):
                        milder = edit.model_copy(
                            update={
                                "parameters": {**edit.parameters, name: value},
                                "summary": f"{edit.summary} ({name} = {value})",
                            }
                        )
                        yield (*edits[:place], milder, *edits[place + 1 :]), f"{name} = {value}"
        if len(edits) < 2:
            return
        suspects = SUSPECTS.get(diagnosis.cause, ())
        order = sorted(
            range(len(edits)),
            key=lambda place: (
                suspects.index(edits[place].skill) if edits[place].skill in suspects else len(suspects),
                -place,
            ),
        )
        for place in order:
            left_out = edits[place]
            yield (*edits[:place], *edits[place + 1 :]), f"without {left_out.skill} on {left_out.site}"


def _is_milder(edit: Edit, name: str, value: Scalar) -> bool:
    """Blocks only shrink; accumulators only grow."""
    current = edit.parameters[name]
    if name in {"block", "unroll"} and isinstance(current, int) and isinstance(value, int):
        return value < current
    return True
