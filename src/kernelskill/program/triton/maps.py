"""Regions without reduce axes: every program computes a stretch, or a tile, of the space.

The space is walked as one line where that costs no division per element: where all operands lie as one, or where the
block divides what has to be parted. Else a program takes columns of one row. Where two operands are contiguous along
different axes a program takes a tile of both, and Triton turns it around in shared memory.
"""

from __future__ import annotations

import math

from kernelskill.program.program import Kernel
from kernelskill.program.region import Op, Operand, Region, Store
from kernelskill.program.schedule import GpuSchedule
from kernelskill.program.statements import ON_TILES, Statements, uses_in
from kernelskill.program.triton.addresses import Chain, address, is_wide, up_to_power_of_two
from kernelskill.program.triton.expressions import expression
from kernelskill.program.triton.names import on_tiles
from kernelskill.program.triton.plan import warps_for
from kernelskill.program.triton.text import GpuFunction, Launch, Text
from kernelskill.records import DTYPE_BYTES

BLOCK = 1024
"""Elements of a program, if all are float32."""
WASTE = 1.25
"""Lanes per element of a row, beyond which rows are walked as one line with divisions."""
TILE = 32
"""Side of a tile whose operands lie across each other."""


def map_function(kernel: Kernel, region: Region) -> GpuFunction:
    """The launch of a plain map."""
    return _Map(kernel, on_tiles(region)).function()


class _Map:
    def __init__(self, kernel: Kernel, region: Region) -> None:
        self.kernel = kernel
        self.region = region
        self.schedule: GpuSchedule = kernel.schedule.gpu
        self.sizes = [axis.size for axis in region.axes]
        self.elements = math.prod(self.sizes)
        self.operands = {item.name: item for item in (*region.inputs, *region.outputs)}
        self.out = Text()
        self.index: Text | None = None
        """Where the index of a line is printed."""
        self.said = Statements(expression, ON_TILES, uses_in(region.stages))
        self.wide = ".to(tl.int64)" if is_wide(region) else ""
        self.chains: list[Chain] = []
        self.masks: dict[int, str] = {}
        """Chain -> the mask of its index."""
        narrowest = min((DTYPE_BYTES[item.dtype] for item in self.operands.values()), default=4)
        self.block = self.schedule.block or min(
            BLOCK * (2 if narrowest < 4 else 1), up_to_power_of_two(self.elements)
        )

    def function(self) -> GpuFunction:
        across = self._across()
        inner = self.sizes[-1]
        waste = -(-inner // self.block) * self.block / inner
        if across is not None:
            programs, held = self._tile(across)
        elif len(self.sizes) == 1 or inner % self.block == 0 or self._is_line() or waste > WASTE:
            programs, held = self._line(), self.block
        else:
            programs, held = self._rows(), self.block
        place = self.out.slot()
        self._body()
        if self.index:
            self._index(self.index)
        for chain in self.chains:
            chain.define(place)
        warps = warps_for(held * 2, self.schedule.num_warps)
        launch = Launch(f"_{self.kernel.name}", self.out, tuple(self.operands), programs, warps)
        return GpuFunction(
            launches=(launch,),
            inputs=tuple(item.name for item in self.region.inputs),
            outputs=tuple(item.name for item in self.region.outputs),
        )

    # -- spaces ------------------------------------------------------------------------------------

    def _is_line(self) -> bool:
        """Whether every operand is one line, or one number."""
        line = Chain("place", range(len(self.sizes)), self.sizes)
        return all(line.terms(item.strides) in ([], ["place"]) for item in self.operands.values())

    def _line(self) -> int:
        chain = Chain("place", range(len(self.sizes)), self.sizes)
        self.index = self.out.slot()
        chain.step = self.block
        self._masked(chain, self.elements % self.block, f"inside = place < {self.elements}", "inside")
        return -(-self.elements // self.block)

    def _index(self, text: Text) -> None:
        """Print the index of a line, in two where its parts need them."""
        start, lane = f"tl.program_id(0){self.wide} * {self.block}", f"tl.arange(0, {self.block})"
        if self.chains[0].parts_lanes:
            text.add(f"start = {start}", f"lane = {lane}", "place = start + lane")
        elif self.chains[0].asked or self.masks:
            text.add(f"place = {start} + {lane}")

    def _rows(self) -> int:
        inner = self.sizes[-1]
        blocks = -(-inner // self.block)
        program = f"tl.program_id(0){self.wide}"
        self.out.add(f"row = {program}" + (f" // {blocks}" if blocks > 1 else ""))
        first = f"{program} % {blocks} * {self.block} + " if blocks > 1 else ""
        self.out.add(f"column = {first}tl.arange(0, {self.block})")
        last = len(self.sizes) - 1
        self.chains.append(Chain("row", range(last), self.sizes[:-1]))
        column = Chain("column", [last], [inner])
        self._masked(column, inner % self.block, f"inside = column < {inner}", "inside")
        return self.elements // inner * blocks

    def _across(self) -> int | None:
        """An axis along which an operand is contiguous that is not the last one."""
        last = len(self.sizes) - 1
        if self.sizes[last] < 8:
            return None
        for item in self.operands.values():
            for axis in range(last):
                if item.strides[axis] == 1 and item.strides[last] > 1 and self.sizes[axis] >= 8:
                    return axis
        return None

    def _tile(self, across: int) -> tuple[int, int]:
        last = len(self.sizes) - 1
        sides = [min(TILE, up_to_power_of_two(self.sizes[axis])) for axis in (across, last)]
        sides[1] = min(max(sides[1], 2048 // sides[0] // 2), up_to_power_of_two(self.sizes[last]))
        blocks = [-(-self.sizes[axis] // side) for axis, side in zip((across, last), sides, strict=True)]
        rest = [axis for axis in range(last) if axis != across]
        outer = math.prod(self.sizes[axis] for axis in rest)
        program = f"tl.program_id(0){self.wide}"
        if outer > 1:
            self.out.add(f"group = {program} // {blocks[0] * blocks[1]}")
            self.chains.append(Chain("group", rest, [self.sizes[axis] for axis in rest]))
        if blocks[0] * blocks[1] > 1:
            whole = f" % {blocks[0] * blocks[1]}" if outer > 1 else ""
            self.out.add(f"tile = {program}{whole}")
        places = (_tile_of("//", *blocks), _tile_of("%", *blocks))
        starts = [f"{place} * {side} + " if place else "" for place, side in zip(places, sides, strict=True)]
        self.out.add(f"row = {starts[0]}tl.arange(0, {sides[0]})[:, None]")
        self.out.add(f"column = {starts[1]}tl.arange(0, {sides[1]})[None, :]")
        for name, axis, side in (("row", across, sides[0]), ("column", last, sides[1])):
            chain = Chain(name, [axis], [self.sizes[axis]])
            size = self.sizes[axis]
            short = "k_in" if name == "column" else "row_in"
            self._masked(chain, size % side, f"{short} = {name} < {size}", short)
        return outer * blocks[0] * blocks[1], sides[0] * sides[1]

    def _masked(self, chain: Chain, rest: int, line: str, mask: str) -> None:
        self.chains.append(chain)
        if rest:
            self.out.add(line)
            self.masks[len(self.chains) - 1] = mask

    # -- the computation ---------------------------------------------------------------------------

    def _body(self) -> None:
        for stage in self.region.stages:
            for op in stage.ops:
                self._op(op)
            for store in stage.stores:
                self._store(store)

    def _pointer(self, operand: Operand) -> tuple[str, str]:
        terms, masks = [], []
        for number, chain in enumerate(self.chains):
            found = chain.terms(operand.strides)
            terms += found
            if found and number in self.masks:
                masks.append(self.masks[number])
        return address(operand, terms), " & ".join(masks)

    def _op(self, op: Op) -> None:
        if op.fn != "load":
            self.out.add(*(f"{due.name} = {text}" for due, text in self.said.of(op)))
            return
        operand = self.operands[str(op.args[0])]
        place, mask = self._pointer(operand)
        cast = "" if operand.dtype in {"float32", "bool"} else ".to(tl.float32)"
        self.out.add(f"{op.name} = tl.load({place}{f', mask={mask}' if mask else ''}){cast}")

    def _store(self, store: Store) -> None:
        place, mask = self._pointer(self.operands[store.operand])
        self.out.add(f"tl.store({place}, {self.said.text(store.value)}{f', mask={mask}' if mask else ''})")


def _tile_of(operator: str, rows: int, columns: int) -> str:
    """The number of a tile in its column (//) or in its row (%); "" where there is only one."""
    if (rows if operator == "//" else columns) == 1:
        return ""
    if (columns if operator == "//" else rows) == 1:
        return "tile"
    return f"tile {operator} {columns}"
