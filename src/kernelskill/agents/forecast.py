"""What is known of a program before it is run."""

from __future__ import annotations

from kernelskill.protocols import FeatureReader, FloorModel
from kernelskill.records import Candidate, Facts, Json, Workload


class Forecast:
    """Reads facts of a program that nobody has run: what it computes, and what should bound each kernel.

    Args:
        features: who reads facts.
        floor: of the machine.
    """

    def __init__(self, features: FeatureReader, floor: FloorModel) -> None:
        self._features = features
        self._floor = floor

    def facts(self, program: Json, workload: Workload) -> Facts:
        """Its facts, none of them measured."""
        unwritten = Candidate(id="", source="", program=program)
        return self._features.read(unwritten, None, self._floor.floor(workload))
