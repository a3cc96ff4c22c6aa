"""A fused kernel as data: an iteration space, operands with a stride per axis, and stages over the space.

The axes are of two roles. `parallel` axes enumerate rows; `reduce` axes enumerate the elements of a row. A kernel
without reduce axes is a plain map. Stages run in order for every row:

- `reduce` walks the row and folds values into one scalar per row and reduction;
- `scalar` computes with those scalars, once per row;
- `map` walks the row again (or the whole space, in a plain map) and stores.

All arithmetic is in float32, whatever the storage; masks are booleans.
"""

from __future__ import annotations

import math
from typing import Literal

from kernelskill.records import Record

Role = Literal["parallel", "reduce"]
Fold = Literal["sum", "max", "min", "prod", "any", "all", "argmax", "argmin", "softmax"]
"""`argmax` and `argmin` give the first place of the extreme; `softmax` folds pairs (running maximum, sum of
exponentials below it) in one pass."""


class Axis(Record):
    """One loop of the iteration space."""

    size: int
    role: Role


class Operand(Record):
    """A tensor read or written by the kernel."""

    name: str
    dtype: str
    strides: tuple[int, ...]
    """Elements to move per step of each axis; 0 = the value does not depend on that axis."""
    offset: int = 0
    """Elements from the tensor's first one."""


class Op(Record):
    """One scalar operation: `name = fn(*args)`. Arguments are names, or numbers."""

    name: str
    fn: str
    """`load` reads the operand named by its argument; all others are in `program.scalar`."""
    args: tuple[str | float, ...]


class Reduction(Record):
    """`name` = fold of `value` over the reduce axes (a float per row)."""

    name: str
    fold: Fold
    value: str

    @property
    def top(self) -> str:
        """Name of a softmax's running maximum, beside the sum of exponentials that has the fold's own."""
        return f"{self.name.removesuffix('_sum')}_max"


class Store(Record):
    """Write `value` to the output `operand`."""

    operand: str
    value: str


class Stage(Record):
    """One walk over a row, or one computation per row."""

    kind: Literal["reduce", "scalar", "map"]
    ops: tuple[Op, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()
    """In a `scalar` stage: written once per row."""


class Region(Record):
    """A fused kernel: what is computed, without how."""

    axes: tuple[Axis, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    stages: tuple[Stage, ...]
    total: tuple[Reduction, ...] = ()
    """A last fold over all rows (mean of a loss): each folds a per-row scalar into one number."""
    total_stage: Stage | None = None
    """Computed once, after `total`, with its results; stores scalars."""

    @property
    def rows(self) -> int:
        """Number of rows (of elements, in a plain map)."""
        return math.prod(axis.size for axis in self.axes if axis.role == "parallel")

    @property
    def row_length(self) -> int:
        """Elements of a row; 1 in a plain map."""
        return math.prod(axis.size for axis in self.axes if axis.role == "reduce")

    @property
    def is_map(self) -> bool:
        """Whether nothing is reduced."""
        return all(axis.role == "parallel" for axis in self.axes)

    @property
    def is_strided(self) -> bool:
        """Whether the contiguous axis enumerates rows, not elements of a row."""
        return not self.is_map and self.axes[-1].role == "parallel"

    @property
    def kind(self) -> Literal["map", "reduce", "row", "strided"]:
        """map; reduce (rows end as scalars); row (rows are written again); strided."""
        if self.is_map:
            return "map"
        if self.is_strided:
            return "strided"
        return "row" if any(stage.kind == "map" for stage in self.stages) else "reduce"

    @property
    def passes(self) -> int:
        """Walks over each row."""
        return sum(stage.kind in {"reduce", "map"} for stage in self.stages)
