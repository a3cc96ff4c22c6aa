"""A plan carried out: edits applied to the base's program, printed as source."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program, program_hash
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
            ProgramError: an edit does not fit, or the program cannot be printed.
        """
        program = base.program if base else self._captured()
        for edit in plan.edits:
            program = self._library.apply(program, edit)
        source = self._printer.source(program, self._task, self._workload)
        before = base.skills if base else ()
        return Candidate(
            id=candidate_id,
            parent_id=base.id if base else "",
            source=source,
            program=program,
            program_hash=program_hash(Program.model_validate(program)),
            skills=(*before, *dict.fromkeys(edit.skill for edit in plan.edits)),
            note=plan.reason,
        )

    def _captured(self) -> object:
        if self._workload.graph is None:
            raise ProgramError(f"the reference was not captured: {self._workload.capture_error}")
        return Program.from_graph(self._workload.graph).model_dump(mode="json")
