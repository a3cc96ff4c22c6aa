"""Programs as JSON, which cross the seams, and as objects, which recipes work on."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kernelskill.errors import ProgramError
from kernelskill.records import Json

if TYPE_CHECKING:
    from kernelskill.program.program import Program

KEPT = 4


class Programs:
    """Remembers the last ones: every skill is asked about the same object, and a large network takes long to parse.

    Nobody changes a program; an edit gives a new one.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[Json, Program]] = deque(maxlen=KEPT)

    def parsed(self, program: Json) -> Program:
        """A program as an object.

        Raises:
            ProgramError: it is none; the first field that is wrong.
        """
        for known, found in self._recent:
            if known is program:
                return found
        found = _parsed(program)
        self._recent.append((program, found))
        return found

    def printed(self, program: Program) -> Json:
        """A program as JSON."""
        found = program.model_dump(mode="json")
        self._recent.append((found, program))
        return found


def _parsed(program: Json) -> Program:
    from kernelskill.program.program import Program

    try:
        return Program.model_validate(program)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProgramError(f"not a program: {where}: {first['msg']}") from error
