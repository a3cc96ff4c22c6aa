"""A run without a memory, to measure what the memory is worth."""

from __future__ import annotations

from kernelskill.memory.run_memory import RunMemory
from kernelskill.protocols import Memory, Planner
from kernelskill.records import Candidate, Declined, Edit, Facts, Plan, Retrieval


class ForgetfulMemory(RunMemory):
    """Keeps the log of attempts, which a run cannot do without, and draws nothing from it."""

    def tried(self, base_id: str, edit: Edit) -> str:
        """Nothing was ever tried."""
        del base_id, edit
        return ""

    def known(self, program_hash: str) -> str:
        """No program was ever seen."""
        del program_hash
        return ""


class ForgetfulPlanner:
    """Implements `protocols.Planner`: another planner, to whom every round is the first.

    Args:
        planner: who plans.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def plan(self, base: Candidate, facts: Facts, retrieval: Retrieval, memory: Memory) -> Plan | None:
        """What the planner would do in a run that has just begun."""
        del memory
        return self._planner.plan(base, facts, retrieval, RunMemory())

    def declined(self) -> Declined:
        """The planner's reason."""
        return self._planner.declined()
