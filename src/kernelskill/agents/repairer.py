"""A diagnosis turned into another plan for the same goal: milder parameters first, then without the suspect edit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from kernelskill.agents.start import captured, hash_of
from kernelskill.agents.suspects import fitting, makers, suspect_kernels
from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule import Schedule
from kernelskill.protocols import Memory, SkillLibrary
from kernelskill.records import Attempt, Diagnosis, Edit, Evaluation, Json, Plan, Scalar, Workload


class Remedy(NamedTuple):
    """Values of one parameter that may cure, mildest change first; only those on that side of the current value."""

    parameter: str
    values: tuple[Scalar, ...]
    side: Literal["smaller", "larger", "other"]

    def helps(self, current: Scalar, value: Scalar) -> bool:
        """Whether the value is a change to the better side."""
        numbers = isinstance(current, int | float) and isinstance(value, int | float)
        if self.side == "other" or not numbers:
            return value != current
        return value < current if self.side == "smaller" else value > current  # type: ignore[operator]


SMALLER_BLOCK = Remedy("block", (512, 256, 128, 64), "smaller")
NARROWER = Remedy("vector_bits", (256, 128), "smaller")
NO_UNROLLING = Remedy("unroll", (1,), "smaller")
FEWER_ACCUMULATORS = Remedy("accumulators", (2, 1), "smaller")
PLAIN_STORES = Remedy("nontemporal", (False,), "other")
REMEDIES: dict[str, tuple[Remedy, ...]] = {
    "tile-too-big": (SMALLER_BLOCK, FEWER_ACCUMULATORS, NO_UNROLLING),
    "memory": (Remedy("split", (1,), "other"), SMALLER_BLOCK),
    "build-timeout": (NO_UNROLLING, FEWER_ACCUMULATORS),
    "crash": (PLAIN_STORES, NARROWER, NO_UNROLLING),
    "illegal-instruction": (NARROWER, PLAIN_STORES),
    "tolerance": (Remedy("level", ("exact",), "other"), Remedy("accumulators", (4, 8), "larger")),
    "non-finite": (Remedy("level", ("exact",), "other"),),
    "values": (Remedy("level", ("exact",), "other"),),
}
"""Cause -> parameters that may be to blame."""

SCHEDULED_BY = {
    "block": "block-inner", "vector_bits": "widen-vectors", "unroll": "unroll-accumulate",
    "accumulators": "unroll-accumulate", "nontemporal": "stream-stores", "split": "split-rows",
}  # fmt: skip
"""Field of a schedule -> the skill whose recipe sets it."""

SUSPECTS: dict[str, tuple[str, ...]] = {
    "tolerance": ("cheaper-math", "simplify-algebra", "online-softmax"),
    "non-finite": ("cheaper-math", "simplify-algebra", "online-softmax"),
    "values": ("cheaper-math", "simplify-algebra"),
    "shape": ("direct-pooling", "single-pass-scan", "simplify-algebra"),
    "dtype": ("simplify-algebra",),
    "state": ("fuse-row-normalization", "remove-dead-code"),
}
"""Cause -> skills whose edits are left out first."""
FEW = 4
"""Edits up to which they are left out one by one; more are halved where nothing points at one."""

Change = tuple[tuple[Edit, ...], str]
"""Edits of a changed plan, and what was changed."""


class ExpertRepairer:
    """Implements `protocols.Repairer`.

    With the workload it replays first versions: it then knows which edit made a kernel, and leaves out those that only
    fit after another. Without, it goes by names and order.
    """

    def __init__(self, library: SkillLibrary, memory: Memory, workload: Workload | None = None) -> None:
        self._library = library
        self._memory = memory
        self._captured = captured(workload) if workload is not None else None

    def repair(self, attempt: Attempt, diagnosis: Diagnosis) -> Plan | None:
        """The first changed plan that was not tried in this run; None when there is nothing left to change."""
        if not diagnosis.repairable or attempt.evaluation is None:
            return None
        plan, start = attempt.plan, self._start(attempt)
        tried = {
            tuple(edit.key for edit in item.plan.edits)
            for item in self._memory.attempts()
            if item.plan.base_id == plan.base_id
        } | {tuple(edit.key for edit in plan.edits)}
        for edits, what in self._changes(attempt, attempt.evaluation, diagnosis.cause, start):
            if start is not None:
                edits, program = fitting(self._library, start, edits)
                if program == start or self._memory.known(hash_of(program)):
                    continue
            if not edits or tuple(edit.key for edit in edits) in tried:
                continue
            skills = [edit.skill for edit in edits]
            return plan.model_copy(
                update={
                    "edits": edits,
                    "skill": plan.skill if plan.skill in skills else skills[-1],
                    "reason": f"repair of {attempt.candidate.id} ({diagnosis.cause}): {what}",
                }
            )
        return None

    def _changes(
        self, attempt: Attempt, evaluation: Evaluation, cause: str, start: Json | None
    ) -> Iterator[Change]:
        """Changed plans, smallest change first."""
        edits = attempt.plan.edits
        program = attempt.candidate.program
        if program is None:
            yield edits, "without the edits that do not fit"
        parsed = None if program is None else Program.model_validate(program)
        kernels = () if parsed is None else suspect_kernels(parsed, evaluation)
        yield from _milder(
            edits, cause, [item for item in parsed.kernels if item.name in kernels] if parsed else []
        )
        if len(edits) < 2:
            return
        blamed: list[int] = []
        if parsed is not None and len(kernels) < len(parsed.kernels):
            blamed += (
                makers(self._library, start, edits, kernels) if start else _shaped(edits, parsed, kernels)
            )
        for skill in SUSPECTS.get(cause, ()):
            blamed += [place for place in reversed(range(len(edits))) if edits[place].skill == skill]
        for place in dict.fromkeys(blamed):
            yield _without(edits, place)
        if not blamed and len(edits) > FEW:
            half = len(edits) // 2
            yield edits[:half], f"the first {half} of {len(edits)} edits"
            yield edits[half:], f"the last {len(edits) - half} of {len(edits)} edits"
        for place in reversed(range(len(edits))):
            yield _without(edits, place)

    def _start(self, attempt: Attempt) -> Json | None:
        """The program that the plan starts from, where it is known."""
        if not attempt.plan.base_id:
            return self._captured
        found = (item for item in self._memory.attempts() if item.candidate.id == attempt.plan.base_id)
        return next((item.candidate.program for item in found), None)


def _without(edits: tuple[Edit, ...], place: int) -> Change:
    left_out = edits[place]
    return (*edits[:place], *edits[place + 1 :]), f"without {left_out.skill} on {left_out.site}"


def _shaped(edits: tuple[Edit, ...], program: Program, kernels: tuple[str, ...]) -> list[int]:
    """Places of edits on those kernels, or of the skills that shaped them; latest first."""
    skills = {skill for kernel in program.kernels if kernel.name in kernels for skill in kernel.skills}
    by_site = [place for place, edit in enumerate(edits) if set(edit.site.split(",")) & set(kernels)]
    by_skill = [place for place, edit in enumerate(edits) if edit.skill in skills]
    return list(reversed(by_site or by_skill))


def _milder(edits: tuple[Edit, ...], cause: str, kernels: list[Kernel]) -> Iterator[Change]:
    """One parameter at a time set milder: in the edits that choose it, and on suspect kernels that were left to it."""
    for remedy in REMEDIES.get(cause, ()):
        name = remedy.parameter
        for value in remedy.values:
            changed = tuple(
                edit.model_copy(
                    update={
                        "parameters": {**edit.parameters, name: value},
                        "summary": f"{edit.summary} ({name} = {value})",
                    }
                )
                if name in edit.parameters and remedy.helps(edit.parameters[name], value)
                else edit
                for edit in edits
            )
            chosen = {edit.site for edit in edits if name in edit.parameters}
            added = [
                edit
                for kernel in kernels
                if kernel.name not in chosen and (edit := _rescheduled(kernel, remedy, value)) is not None
            ]
            if added or changed != edits:
                yield (*changed, *added), f"{name} = {value}"


def _rescheduled(kernel: Kernel, remedy: Remedy, value: Scalar) -> Edit | None:
    """An edit of one field of a kernel's schedule; None where it changes nothing in the kernel's text."""
    name = remedy.parameter
    current = getattr(kernel.schedule, name, None)
    if name not in SCHEDULED_BY or not remedy.helps(current, value):
        return None
    schedule = Schedule.model_validate({**kernel.schedule.model_dump(), name: value})
    try:
        before = kernel_function(kernel).body
        after = kernel_function(kernel.model_copy(update={"schedule": schedule})).body
    except ProgramError:
        return None
    if before == after:
        return None
    return Edit(
        skill=SCHEDULED_BY[name],
        site=kernel.name,
        action=f"schedule.{name}",
        parameters={name: value},
        summary=f"{kernel.name}: {name} {current} -> {value}",
    )
