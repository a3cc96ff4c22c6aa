"""Expert and model in one run: who plans is who writes, diagnoses and repairs.

First versions come from the first of them that has any; where all of them fail, from the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelskill.protocols import Diagnoser, Generator, Optimizer, Repairer
from kernelskill.records import Attempt, Candidate, Diagnosis, Facts, Plan, Task, Workload


class GeneratorsInTurn:
    """Implements `protocols.Generator`: the first that has a plan gives all of them.

    Each knows its own plans among those that failed, and has none for a second time.
    """

    def __init__(self, *generators: Generator) -> None:
        self._generators = generators

    def seeds(
        self, task: Task, workload: Workload, facts: Facts, count: int, failed: Sequence[Attempt] = ()
    ) -> Sequence[Plan]:
        """Plans of the first generator that has any."""
        for generator in self._generators:
            plans = generator.seeds(task, workload, facts, count, failed)
            if plans:
                return plans
        return ()


class OptimizerByAuthor:
    """Implements `protocols.Optimizer`: a plan in words goes to the model, one of edits to the expert."""

    def __init__(self, expert: Optimizer, model: Optimizer) -> None:
        self._expert = expert
        self._model = model

    def write(self, candidate_id: str, base: Candidate | None, plan: Plan) -> Candidate:
        """The candidate, by the plan's author."""
        writer = self._expert if plan.intent is None else self._model
        return writer.write(candidate_id, base, plan)


class DiagnoserByAuthor:
    """Implements `protocols.Diagnoser`."""

    def __init__(self, expert: Diagnoser, model: Diagnoser) -> None:
        self._expert = expert
        self._model = model

    def diagnose(self, attempt: Attempt) -> Diagnosis:
        """The diagnosis, by the author of the attempt's plan."""
        reader = self._expert if attempt.plan.intent is None else self._model
        return reader.diagnose(attempt)


class RepairerByAuthor:
    """Implements `protocols.Repairer`."""

    def __init__(self, expert: Repairer, model: Repairer) -> None:
        self._expert = expert
        self._model = model

    def repair(self, attempt: Attempt, diagnosis: Diagnosis) -> Plan | None:
        """The changed plan, by the author of the attempt's plan."""
        mender = self._expert if attempt.plan.intent is None else self._model
        return mender.repair(attempt, diagnosis)
