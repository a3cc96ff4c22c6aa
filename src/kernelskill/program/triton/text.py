"""Text of Python with indentation, and what a printed kernel consists of."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from kernelskill.program.arguments import folded
from kernelskill.program.region import Region

LOCALS = frozenset(
    ["row", "k", "lane", "start", "part", "inside", "row_in", "k_in", "column", "group", "place", "low", "carry",
     "tl", "triton", "torch", "range", "float", "value", "tile", "parts", "run", "step", "d", "h", "w", "taps",
     "stride", "turn", "turns", "quarter", "piece"]
)  # fmt: skip
"""Names that printed kernels use for themselves."""


class Text:
    """Lines of a function's body; a slot is a place that is filled later."""

    def __init__(self, depth: int = 1) -> None:
        self._parts: list[str | Text] = []
        self._depth = depth

    def add(self, *lines: str) -> None:
        """Add lines at the current depth."""
        for line in lines:
            self._parts.extend(folded("    " * self._depth + line, 118) if line else [""])

    def open(self, line: str) -> None:
        """Add a line that opens a block."""
        self.add(line)
        self._depth += 1

    def close(self) -> None:
        """End the block."""
        self._depth -= 1

    def slot(self) -> Text:
        """A place at the current depth whose lines are added later."""
        place = Text(self._depth)
        self._parts.append(place)
        return place

    def lines(self) -> list[str]:
        """All lines."""
        found: list[str] = []
        for part in self._parts:
            found += part.lines() if isinstance(part, Text) else [part]
        return found


@dataclass(frozen=True)
class Launch:
    """One function on the device and how it is launched."""

    name: str
    body: Text
    pointers: tuple[str, ...]
    """Names of the pointers that it takes."""
    programs: int
    """Size of the grid."""
    warps: int

    def function(self) -> str:
        """The text of the device function."""
        head = folded(f"def {self.name}({', '.join(pointer(name) for name in self.pointers)}):")
        return "\n".join(["@triton.jit", *head, *self.body.lines()])

    def call(self) -> list[str]:
        """The statement that launches it, over several lines where it is long."""
        head = f"{self.name}[({self.programs},)]"
        given = f"{', '.join(self.pointers)}, num_warps={self.warps}"
        if len(head) + len(given) <= 104:
            return [f"{head}({given})"]
        return [f"{head}(", *(f"    {line}" for line in textwrap.wrap(given, 106)), ")"]


@dataclass(frozen=True)
class GpuFunction:
    """A printed kernel: launches in order, and the tensors that pass values from one to the next."""

    launches: tuple[Launch, ...]
    inputs: tuple[str, ...]
    """What the wrapper takes, in order of the node's arguments."""
    outputs: tuple[str, ...]
    """What it allocates and gives back, in order of the node's results."""
    workspaces: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Name -> (elements, dtype)."""


def pointer(name: str) -> str:
    """What the pointer to a tensor is called on the device."""
    return f"{name}_ptr"


def walked(start: str, end: str, step: int, stages: int) -> str:
    """The head of a loop over a row; `stages` loads are in flight ahead of it, 0 = as many as Triton likes."""
    if not stages:
        return f"for start in range({start}, {end}, {step}):"
    return f"for start in tl.range({start}, {end}, {step}, num_stages={stages}):"


def respelled(region: Region) -> Region:
    """The region with the names that printed kernels need for themselves changed."""
    names = {item.name for item in (*region.inputs, *region.outputs)}
    stages = (*region.stages, *([region.total_stage] if region.total_stage else []))
    names |= {op.name for stage in stages for op in stage.ops}
    names |= {item.name for stage in stages for item in stage.reductions} | {
        item.name for item in region.total
    }
    clashing = {name: f"{name}_value" for name in names & LOCALS}
    if not clashing:
        return region

    def spell(part: object) -> object:
        if isinstance(part, str):
            return clashing.get(part, part)
        if isinstance(part, list | tuple):
            return [spell(item) for item in part]
        if isinstance(part, dict):
            kept = ("fn", "fold", "kind", "role", "dtype")
            return {key: item if key in kept else spell(item) for key, item in part.items()}
        return part

    return Region.model_validate(spell(region.model_dump()))


def spelled_name(name: str) -> str:
    """A name as `respelled` has it."""
    return f"{name}_value" if name in LOCALS else name
