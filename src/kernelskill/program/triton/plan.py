"""Shapes of tiles: how many rows and elements a program holds, with how many warps, and who shares a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelskill.program.region import Region
from kernelskill.program.schedule import GpuSchedule
from kernelskill.program.triton.addresses import up_to_power_of_two

LONGEST_WHOLE = 16384
"""Elements of all rows that a program keeps in registers: 32 a thread; twice as many spill."""
LONGEST_BESIDE = 1024
"""Rows up to this length are folded several at a time."""
LOOP_BLOCK = 4096
"""Elements taken at a time of a shared row: 16 a thread, in four accesses of 16 bytes."""
LONG_BLOCK = 16384
"""Elements taken at a time of a row that is walked twice: so few programs run at once that the second walk finds the
row in cache."""
CACHED = 131072
"""Elements of the longest such row."""
LONGEST_SCAN = 16384
"""Elements of a row that is scanned as a single tile."""
SCAN_TILE = 8192
"""Elements of a tile that is scanned along strided rows."""
TILE = 2048
"""Elements of a tile of several rows."""
BUSY = 1056
"""Programs that keep an H200 busy: eight of 256 threads on each of its 132 multiprocessors."""
FEW = 264
"""Programs below which rows are shared."""
THREAD = 16
"""Elements that a thread works on."""


@dataclass(frozen=True)
class RowPlan:
    """The tile of a kernel that folds rows."""

    shape: Literal["line", "wide", "tall"]
    """line: a row a program; wide: several rows; tall: rows side by side, their elements apart."""
    rows: int
    """Rows of the tile."""
    block: int
    """Elements of each row in the tile."""
    warps: int
    parts: int
    """Programs that share a row."""
    length: int

    @property
    def is_whole(self) -> bool:
        """Whether the tile holds whole rows."""
        return self.parts == 1 and self.block >= self.length

    @property
    def stretch(self) -> int:
        """Elements of a row that one program walks; a multiple of the block."""
        if self.parts == 1:
            return self.length
        return -(-self.length // (self.parts * self.block)) * self.block


def warps_for(elements: int, given: int) -> int:
    """Warps of a program that holds a tile of so many elements."""
    return given or min(16, max(1, elements // (32 * THREAD)))


def row_plan(region: Region, schedule: GpuSchedule) -> RowPlan:
    """The tile for a region with reduce axes, by its schedule where that says something."""
    return _tall(region, schedule) if region.is_strided else _straight(region, schedule)


def _straight(region: Region, schedule: GpuSchedule) -> RowPlan:
    length, rows = region.row_length, region.rows
    whole = up_to_power_of_two(length)
    operands = max(1, sum(_walks(region, item.strides) for item in region.inputs))
    if not schedule.split > 1 and whole <= LONGEST_BESIDE and (schedule.rows > 1 or rows >= FEW):
        beside = schedule.rows or max(1, min(TILE // whole, up_to_power_of_two(-(-rows // BUSY))))
        beside = min(beside, up_to_power_of_two(rows))
        if beside > 1:
            return RowPlan("wide", beside, whole, warps_for(beside * whole, schedule.num_warps), 1, length)
    fits = whole * operands <= LONGEST_WHOLE if not schedule.block else schedule.block >= length
    parts = _parts(region, schedule, rows, length, LOOP_BLOCK) if not fits or schedule.split > 1 else 1
    if fits and parts == 1:
        return RowPlan("line", 1, whole, warps_for(whole, schedule.num_warps), 1, length)
    cached = parts == 1 and region.passes > 1
    usual = (LONG_BLOCK if length <= CACHED else 2 * LOOP_BLOCK) if cached else LOOP_BLOCK
    block = min(schedule.block or usual, whole)
    parts = _shared(length, block, parts)
    warps = schedule.num_warps or max(1, min(32, block // (512 if parts == 1 else 256)))
    return RowPlan("line", 1, block, warps, parts, length)


def _tall(region: Region, schedule: GpuSchedule) -> RowPlan:
    length, inner = region.row_length, region.axes[-1].size
    outer = region.rows // inner
    columns = schedule.rows or min(up_to_power_of_two(inner), 128)
    while not schedule.rows and columns > 32 and outer * -(-inner // columns) < FEW:
        columns //= 2
    whole = up_to_power_of_two(length)
    narrow = max(16, min(columns, 4096 // whole)) if whole > 256 else max(32, 4096 // whole)
    if not schedule.block and not schedule.split > 1 and whole * min(narrow, columns) <= 8192:
        columns = columns if schedule.rows else min(narrow, columns)
        programs = outer * -(-inner // columns)
        if programs >= FEW or length <= 64:
            return RowPlan("tall", columns, whole, warps_for(whole * columns, schedule.num_warps), 1, length)
    columns = schedule.rows or min(columns, 64)
    block = min(schedule.block or max(16, TILE // columns), whole)
    programs = outer * -(-inner // columns)
    parts = _shared(length, block, _parts(region, schedule, programs, length, block))
    return RowPlan("tall", columns, block, warps_for(2 * block * columns, schedule.num_warps), parts, length)


def _parts(region: Region, schedule: GpuSchedule, programs: int, length: int, block: int) -> int:
    if schedule.split:
        return schedule.split
    if programs >= FEW or length < 4 * block:
        return 1
    parts = min(-(-BUSY // programs), length // (2 * block))
    if length % block:
        return parts
    # Parts of one length need no masks.
    blocks = length // block
    return next((count for count in range(parts, 2 * parts + 1) if blocks % count == 0), parts)


def _shared(length: int, block: int, parts: int) -> int:
    """Parts that are not empty when each is a multiple of the block."""
    if parts <= 1:
        return 1
    stretch = -(-length // (parts * block)) * block
    return max(1, -(-length // stretch))


def _walks(region: Region, strides: tuple[int, ...]) -> bool:
    """Whether an operand has a value for each element of each row."""
    row = [
        step
        for axis, step in zip(region.axes, strides, strict=True)
        if axis.role == "parallel" and axis.size > 1
    ]
    along = [step for axis, step in zip(region.axes, strides, strict=True) if axis.role == "reduce"]
    return any(along) and (any(row) or not row)


def scan_plan(region: Region, length: int, schedule: GpuSchedule) -> RowPlan:
    """The tile of a scan over the one reduce axis of a region, of which `length` elements are read."""
    walked = next(index for index, axis in enumerate(region.axes) if axis.role == "reduce")
    whole, rows = up_to_power_of_two(length), region.rows
    if walked == len(region.axes) - 1:
        if whole <= LONGEST_BESIDE and (schedule.rows > 1 or rows >= FEW):
            beside = schedule.rows or min(TILE // whole, up_to_power_of_two(-(-rows // BUSY)))
            if min(beside, rows) > 1:
                beside = min(beside, up_to_power_of_two(rows))
                return RowPlan(
                    "wide", beside, whole, warps_for(beside * whole, schedule.num_warps), 1, length
                )
        block = min(schedule.block or (whole if whole <= LONGEST_SCAN else LOOP_BLOCK), whole)
        parts = _shared(length, block, _parts(region, schedule, rows, length, block))
        return RowPlan("line", 1, block, warps_for(block, schedule.num_warps), parts, length)
    inner = region.axes[-1].size
    columns = schedule.rows or min(up_to_power_of_two(inner), 64)
    if not schedule.rows and columns > 32 and rows // inner * -(-inner // columns) < FEW:
        columns = 32
    block = min(schedule.block or max(16, SCAN_TILE // columns), whole)
    programs = rows // inner * -(-inner // columns)
    # Parts are read once more than rows, so only a few programs are not enough.
    parts = _parts(region, schedule, programs, length, block) if schedule.split or programs < FEW // 4 else 1
    parts = _shared(length, block, parts)
    # A thread that holds more of a column leaves less to be scanned across warps.
    return RowPlan("tall", columns, block, warps_for(block * columns // 2, schedule.num_warps), parts, length)
