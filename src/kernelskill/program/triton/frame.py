"""The tile of a kernel that folds rows: its indices, its masks, its loads and stores."""

from __future__ import annotations

import math
from collections import Counter

from kernelskill.program.region import Op, Operand, Region, Store
from kernelskill.program.statements import ON_TILES, SUM, Statements
from kernelskill.program.triton.addresses import Chain, address, is_wide
from kernelskill.program.triton.expressions import expression
from kernelskill.program.triton.plan import RowPlan
from kernelskill.program.triton.text import Text

NARROW = {"float32": "", "bool": ""}


class Frame:
    """Prints what one launch needs, whatever the shape of the tile: values of rows and of elements broadcast."""

    def __init__(self, region: Region, plan: RowPlan, label: str = "") -> None:
        self.region = region
        self.label = label
        self.plan = plan
        self.out = Text()
        self.operands = {item.name: item for item in (*region.inputs, *region.outputs)}
        axes = region.axes
        self.parallel = [i for i, axis in enumerate(axes) if axis.role == "parallel"]
        self.reduce = [i for i, axis in enumerate(axes) if axis.role == "reduce"]
        self.varying = self._differing(self.reduce)
        self.by_row = self._differing(self.parallel[-1:] if plan.shape == "tall" else self.parallel)
        self.used: dict[str, None] = {}
        """Pointers that the function takes, as they come up."""
        self.of_rows = Statements(expression, ON_TILES, Counter())
        """The statements on values of rows."""
        self.of_elements = Statements(expression, ON_TILES, Counter())
        """The statements on values of elements, of all walks or of the one that is being printed."""
        self.neutral: dict[str, str] = {}
        """Loads -> what they give beyond the end of a row, where a fold wants that."""
        outer = self.parallel[:-1] if plan.shape == "tall" else self.parallel
        self.row = self.chain("group" if plan.shape == "tall" else "row", outer)
        self.column = self.chain("column", self.parallel[-1:] if plan.shape == "tall" else [])
        self.inner = axes[-1].size if plan.shape == "tall" else 1
        self.blocks = -(-self.inner // plan.rows) if plan.shape == "tall" else -(-region.rows // plan.rows)
        self.outer = region.rows // self.inner if plan.shape == "tall" else 1
        self.row_masked = (self.inner if plan.shape == "tall" else region.rows) % plan.rows != 0
        self.k_masked = (
            plan.block * (1 if plan.is_whole else plan.parts * plan.stretch // plan.block) != plan.length
        )
        if not plan.is_whole and plan.parts == 1:
            self.k_masked = plan.length % plan.block != 0
        self.axis = 1 if plan.shape == "wide" else 0
        self.keep = "" if plan.shape == "line" else ", keep_dims=True"
        self.tile = {"line": f"[{plan.block}]", "wide": f"[{plan.rows}, {plan.block}]",
                     "tall": f"[{plan.block}, {plan.rows}]"}[plan.shape]  # fmt: skip
        self.row_tile = {"line": "", "wide": f"[{plan.rows}, 1]", "tall": f"[1, {plan.rows}]"}[plan.shape]
        self.wide_rows = ".to(tl.int64)" if is_wide(region) else ""
        self.wide_k = ".to(tl.int64)" if is_wide(region, self.reduce) else ""

    def chain(self, name: str, axes: list[int]) -> Chain:
        """An index over some axes."""
        return Chain(name, axes, [self.region.axes[axis].size for axis in axes], f"{name}{self.label}")

    def _differing(self, axes: list[int]) -> set[str]:
        """Names of values of elements that differ along some axes."""
        found: set[str] = set()
        for stage in self.region.stages:
            for op in stage.ops:
                if op.fn == "load":
                    strides = self.operands[str(op.args[0])].strides
                    if any(strides[axis] and self.region.axes[axis].size > 1 for axis in axes):
                        found.add(op.name)
                elif (op.fn == "index" and axes == self.reduce) or any(arg in found for arg in op.args):
                    found.add(op.name)
        return found

    # -- indices -----------------------------------------------------------------------------------

    @property
    def programs(self) -> int:
        """Programs that cover all rows, without the sharing of rows."""
        return self.outer * self.blocks

    def begin(self, shared: bool) -> Text:
        """Print which rows the program has; returns the place for what depends on it."""
        plan, out = self.plan, self.out
        program = f"tl.program_id(0){self.wide_rows}"
        if shared:
            out.add(f"part = tl.program_id(0) % {plan.parts}")
            program = f"tl.program_id(0) // {plan.parts}"
            program = f"({program}){self.wide_rows}" if self.wide_rows else program
        if plan.shape == "line":
            if self.region.rows > 1:
                out.add(f"row = {program}")
        elif plan.shape == "wide":
            out.add(f"row = {program} * {plan.rows} + tl.arange(0, {plan.rows})[:, None]")
            if self.row_masked:
                out.add(f"row_in = row < {self.region.rows}")
        else:
            self._begin_tall(program)
        return out.slot()

    def _begin_tall(self, program: str) -> None:
        plan, out = self.plan, self.out
        lanes = f"tl.arange(0, {plan.rows})[None, :]"
        if self.outer == 1:
            first = "" if self.blocks == 1 else f"{program} * {plan.rows} + "
        else:
            out.add(f"group = {program}" + (f" // {self.blocks}" if self.blocks > 1 else ""))
            first = "" if self.blocks == 1 else f"{program} % {self.blocks} * {plan.rows} + "
        out.add(f"column = {first}{lanes}")
        if self.row_masked:
            out.add(f"row_in = column < {self.inner}")

    def lanes(self, count: int) -> str:
        """A vector of numbers along the row."""
        side = {"line": "", "wide": "[None, :]", "tall": "[:, None]"}[self.plan.shape]
        return f"tl.arange(0, {count}){side}"

    def elements(self, out: Text, index: str) -> tuple[Chain, Text]:
        """Print the index along the row and its masks; returns the chain, and the place for its parts."""
        out.add(f"k = {index}")
        if self.k_masked:
            out.add(f"k_in = k < {self.plan.length}")
            if self.row_masked:
                out.add("inside = row_in & k_in")
        return self.chain("k", self.reduce), out.slot()

    # -- memory ------------------------------------------------------------------------------------

    def pointer(self, operand: Operand, k: Chain | None) -> tuple[str, str]:
        """Address of an operand and the mask that its access needs ("" = none)."""
        self.used.setdefault(operand.name)
        row = [*self.row.terms(operand.strides), *self.column.terms(operand.strides)]
        along = k.terms(operand.strides) if k else []
        by_k = bool(k and set(along) - k.constant)
        by_row = bool(row) if self.plan.shape != "tall" else bool(self.column.terms(operand.strides))
        masks = [
            *(["row_in"] if self.row_masked and by_row else []),
            *(["k_in"] if self.k_masked and by_k else []),
        ]
        mask = "inside" if len(masks) == 2 else "".join(masks)
        if along and self.k_masked and not by_k:
            # One place for a whole block: it exists if the block's first element does.
            mask = f"{mask} & (start < {self.plan.length})" if mask else f"start < {self.plan.length}"
        return address(operand, [*row, *along]), mask

    def op(self, out: Text, op: Op, k: Chain | None) -> None:
        """Print one operation, or leave it to the only one that uses it."""
        if op.fn == "load":
            operand = self.operands[str(op.args[0])]
            place, mask = self.pointer(operand, k)
            cast = NARROW.get(operand.dtype, ".to(tl.float32)")
            given = f", mask={mask}" if mask else ""
            if op.name in self.neutral and mask:
                given += f", other={self.neutral[op.name]}"
            out.add(f"{op.name} = tl.load({place}{given}){cast}")
        elif op.fn == "index":
            out.add(f"{op.name} = {self._place()}.to(tl.float32)")
        else:
            said = self.of_elements if op.name in self.varying else self.of_rows
            out.add(*(f"{due.name} = {text}" for due, text in said.of(op)))

    def text(self, name: str, least: int = 0) -> str:
        """A value by its name or its expression, in brackets where that is bound less tightly than `least`."""
        return (self.of_rows if name in self.of_rows else self.of_elements).text(name, least)

    def _place(self) -> str:
        last = self.region.axes[self.reduce[-1]].size
        return "k" if last == self.plan.length else f"(k % {last})"

    def store(self, out: Text, store: Store, k: Chain | None, once: str = "") -> None:
        """Print one store; `once` is a condition under which it is this program's to do."""
        operand = self.operands[store.operand]
        place, mask = self.pointer(operand, k)
        masks = [item for item in (mask, once) if item]
        given = (
            f", mask={' & '.join(f'({item})' if ' ' in item else item for item in masks)}" if masks else ""
        )
        out.add(f"tl.store({place}, {self.text(store.value)}{given})")

    # -- values ------------------------------------------------------------------------------------

    def whole_tile(self, name: str) -> str:
        """A value spread over the tile, where it is not already."""
        if self.is_whole_tile(name):
            return self.text(name)
        return f"tl.zeros({self.tile}, tl.float32) + {self.text(name, SUM + 1)}"

    def is_whole_tile(self, name: str) -> bool:
        """Whether a value has an element for each of the tile."""
        return name in self.varying and (self.plan.shape == "line" or name in self.by_row)

    def row_place(self) -> str:
        """The number of a row among all rows."""
        if self.plan.shape != "tall":
            return "row" if self.region.rows > 1 else "0"
        return f"group * {self.inner} + column" if self.outer > 1 else "column"

    def partial(self, place: str) -> str:
        """Where the partial result of a part stands, behind its pointer."""
        if self.plan.shape == "tall":
            return f"{place} * {self.region.rows} + {self.row_place()}"
        row = self.row_place()
        return place if row == "0" else f"{row} * {self.plan.parts} + {place}"

    def count(self) -> int:
        """Partial results of one fold."""
        return math.prod((self.region.rows, self.plan.parts))
