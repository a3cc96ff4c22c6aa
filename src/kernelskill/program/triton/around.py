"""What scans and pooling share on a GPU: a core between element-wise work before and after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel
from kernelskill.program.region import Region
from kernelskill.program.triton.names import on_tiles
from kernelskill.program.triton.text import GpuFunction, Launch, spelled_name
from kernelskill.records import Json


@dataclass(frozen=True)
class Around:
    """A template's parameters and its two maps, as they are spelled on a GPU."""

    parameters: dict[str, Json]
    before: Region
    after: Region
    value: str
    """The operand of the map after the core that is the core's result."""

    @classmethod
    def of(cls, kernel: Kernel) -> Around:
        """Those of a kernel.

        Raises:
            ProgramError: one of the two maps is missing.
        """
        template = kernel.body
        if isinstance(template, Region) or template.prologue is None or template.epilogue is None:
            raise ProgramError(
                f"kernel {kernel.name}: a template reads by its prologue and stores by its epilogue"
            )
        value = spelled_name(str(template.parameters["value"]))
        return cls(template.parameters, on_tiles(template.prologue), on_tiles(template.epilogue), value)

    def pointers(self, used: Iterable[str], *more: str) -> tuple[str, ...]:
        """Those operands that a launch uses, inputs first, and further tensors."""
        order = [item.name for item in (*self.before.inputs, *self.after.inputs, *self.after.outputs)]
        wanted = set(used)
        return tuple(name for name in dict.fromkeys([*order, *more]) if name in wanted)

    def function(
        self, launches: tuple[Launch, ...], workspaces: dict[str, tuple[int, str]] | None = None
    ) -> GpuFunction:
        """The kernel that these launches make."""
        reads = (*self.before.inputs, *self.after.inputs)
        return GpuFunction(
            launches=launches,
            inputs=tuple(item.name for item in reads if item.name != self.value),
            outputs=tuple(item.name for item in self.after.outputs),
            workspaces=workspaces or {},
        )
