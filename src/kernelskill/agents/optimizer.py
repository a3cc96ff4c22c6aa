"""A plan carried out: edits applied to the base's program, printed as source."""

from __future__ import annotations

from kernelskill.agents.start import captured, hash_of, is_whole
from kernelskill.errors import ProgramError
from kernelskill.protocols import Printer, SkillLibrary
from kernelskill.records import Candidate, Plan, Task, Workload


class ExpertOptimizer:
    """Implements `protocols.Optimizer`."""

    def __init__(self, library: SkillLibrary, printer: Printer, task: Task, workload: Workload) -> None:
        self._library = library
        self._printer = printer
        self._task = task
        self._workload = workload

    def write(self, candidate_id: str, base: Candidate | None, plan: Plan) -> Candidate:
        """Apply the plan's edits in order and print the result.

        Raises:
            ProgramError: the base has no program, an edit does not fit, or the program cannot be printed.
        """
        if base is not None and base.program is None:
            raise ProgramError(f"{base.id} was not written from a program: there is nothing to edit")
        program = captured(self._workload) if base is None else base.program
        for edit in plan.edits:
            program = self._library.apply(program, edit)
        if not is_whole(program, self._workload):
            raise ProgramError(f"the reference was not captured: {self._workload.capture_error}")
        return Candidate(
            id=candidate_id,
            parent_id=base.id if base else "",
            source=self._printer.source(program, self._task, self._workload),
            program=program,
            program_hash=hash_of(program),
            skills=(*(base.skills if base else ()), *dict.fromkeys(edit.skill for edit in plan.edits)),
            note=plan.reason,
        )
