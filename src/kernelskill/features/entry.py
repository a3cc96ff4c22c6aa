"""One line of the catalog of facts."""

from __future__ import annotations

from typing import Literal

from kernelskill.records import Record, Scalar
from kernelskill.records.facts import Origin

Subject = Literal["program", "kernel", "operator"]
Kind = Literal["text", "bool", "int", "float"]


class FactEntry(Record):
    """What a fact means and which values it can have."""

    name: str
    kind: Kind
    subjects: tuple[Subject, ...]
    """What it is a fact of."""
    origin: Origin
    """measured: from a clock; parsed: from the program, the machine code or the floor."""
    meaning: str
    unit: str = ""
    choices: tuple[Scalar, ...] = ()
    """All values, where there are few."""
    low: float = 0.0
    """Smallest value of a number; there is no largest, as noise may carry a ratio a little above 1."""

    def check(self, value: Scalar) -> None:
        """Raises ValueError for a value of another type, or out of range."""
        kinds: dict[Kind, type | tuple[type, ...]] = {
            "text": str,
            "bool": bool,
            "int": int,
            "float": (int, float),
        }
        wrong = not isinstance(value, kinds[self.kind]) or (isinstance(value, bool) and self.kind != "bool")
        if wrong or (self.choices and value not in self.choices):
            wanted = f"one of {self.choices}" if self.choices else f"a {self.kind}"
            raise ValueError(f"fact {self.name} must be {wanted}, not {value!r}")
        if self.kind in {"int", "float"} and isinstance(value, (int, float)) and value < self.low:
            raise ValueError(f"fact {self.name} must be at least {self.low:g}, not {value!r}")
