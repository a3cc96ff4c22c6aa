"""What scans and pooling share: a core between element-wise work before and after it."""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelskill.errors import ProgramError
from kernelskill.program.lines import Lines
from kernelskill.program.program import Kernel
from kernelskill.program.region import Region
from kernelskill.program.template import CppFunction
from kernelskill.program.templates.pointwise import Pointwise


class Around:
    """A template's kernel: a core between a prologue that reads and an epilogue that stores.

    Args:
        kernel: whose body is a template.
        lanes: floats in a register, given those of the schedule and the epilogue's region.

    Raises:
        ProgramError: a prologue or an epilogue is missing.
    """

    def __init__(self, kernel: Kernel, lanes: Callable[[int, Region], int]) -> None:
        template = kernel.body
        if isinstance(template, Region) or template.prologue is None or template.epilogue is None:
            raise ProgramError(
                f"kernel {kernel.name}: a template reads by its prologue and stores by its epilogue"
            )
        self.parameters = template.parameters
        self.schedule = kernel.schedule
        self.out = Lines()
        self.lanes = lanes(kernel.schedule.lanes, template.epilogue)
        value = str(template.parameters["value"])
        self.reads = Pointwise(template.prologue, kernel.schedule, self.out, self.lanes)
        self.writes = Pointwise(template.epilogue, kernel.schedule, self.out, self.lanes, value)
        outside = [template.prologue.axes[index] for index in self.reads.before]
        self.rows = math.prod(axis.size for axis in outside)
        """Pieces that the core works on one by one: rows of a scan, planes of a pooling."""

    def printed(self) -> CppFunction:
        """The function, when all of it is in `out`."""
        stored = self.writes.region.outputs[0]
        return CppFunction(
            body=self.out.text(),
            inputs=(*self.reads.operands(), *self.writes.operands()),
            outputs=((stored.name, stored.dtype),),
        )
