"""Maximum and average pooling: every lane folds the window of one result; overlapping windows meet in the cache."""

from __future__ import annotations

import math

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel, Template
from kernelskill.program.region import Op, Operand, Region
from kernelskill.program.templates.pool import Window, windows
from kernelskill.program.triton.addresses import Chain, address, is_wide, up_to_power_of_two
from kernelskill.program.triton.expressions import expression, number
from kernelskill.program.triton.text import GpuFunction, Launch, Text, respelled, spelled_name

BLOCK = 1024
"""Results of a program whose windows lie close together."""
APART = 128
"""Results of a program whose windows are large and strided: one a thread."""
FEW = 4
"""Elements of a window that is small."""
WASTE = 1.25
"""Lanes per result of a plane, beyond which programs don't keep to one plane."""
UNROLLED = 32
"""Elements of a window that are folded without a loop, so that their loads are in flight together."""
LETTERS = ("d", "h", "w")


def pool_function(kernel: Kernel, template: Template) -> GpuFunction:
    """The launch of a pooling.

    Raises:
        ProgramError: its parameters are not those of a pooling.
    """
    if template.prologue is None or template.epilogue is None:
        raise ProgramError(f"kernel {kernel.name}: pooling reads by its prologue and stores by its epilogue")
    return _Pool(kernel, template, respelled(template.prologue), respelled(template.epilogue)).function()


class _Pool:
    def __init__(self, kernel: Kernel, template: Template, before: Region, after: Region) -> None:
        self.kernel = kernel
        self.parameters = template.parameters
        self.before = before
        self.after = after
        self.value = spelled_name(str(template.parameters["value"]))
        self.is_max = template.parameters["fold"] == "max"
        self.windows = windows(template, before, after)
        self.out = Text()
        self.area = math.prod(window.results for window in self.windows)
        self.planes = before.rows
        self.wide = ".to(tl.int64)" if is_wide(before) or is_wide(after) else ""
        self.used: dict[str, None] = {}
        self.walked = [
            [i for i, axis in enumerate(side.axes) if axis.role == "reduce"] for side in (before, after)
        ]
        given = kernel.schedule.gpu.block
        held = math.prod(window.size for window in self.windows)
        usual = BLOCK if self.windows[2].stride == 1 else BLOCK // 2 if held <= FEW else APART
        self.block = given or min(usual, up_to_power_of_two(self.area * self.planes))
        self.masked = False
        self.plane_is_lane = False

    def function(self) -> GpuFunction:
        programs = self._places()
        slot = self.out.slot()
        chains = [
            Chain("plane", axes, [side.axes[i].size for i in axes], label)
            for side, label in ((self.before, "plane"), (self.after, "plane_out"))
            for axes in [[i for i, axis in enumerate(side.axes) if axis.role == "parallel"]]
        ]
        self._window(chains[0])
        self._finish(chains[1])
        for chain in chains:
            chain.define(slot)
        order = [item.name for item in (*self.before.inputs, *self.after.inputs, *self.after.outputs)]
        pointers = tuple(name for name in dict.fromkeys(order) if name in self.used)
        warps = self.kernel.schedule.gpu.num_warps or max(1, min(4, self.block // 32))
        stages = self.kernel.schedule.gpu.num_stages
        return GpuFunction(
            launches=(Launch(f"_{self.kernel.name}", self.out, pointers, programs, warps, stages),),
            inputs=tuple(i.name for i in (*self.before.inputs, *self.after.inputs) if i.name != self.value),
            outputs=tuple(item.name for item in self.after.outputs),
        )

    def _places(self) -> int:
        """Print which results a program makes; returns the number of programs."""
        out, block, area = self.out, self.block, self.area
        blocks = -(-area // block)
        program = f"tl.program_id(0){self.wide}"
        if blocks * block <= WASTE * area:
            out.add(f"plane = {program}" + (f" // {blocks}" if blocks > 1 else ""))
            first = f"{program} % {blocks} * {block} + " if blocks > 1 else ""
            out.add(f"place = {first}tl.arange(0, {block})")
            self.masked = area % block != 0
            if self.masked:
                out.add(f"inside = place < {area}")
            programs = self.planes * blocks
        else:
            out.add(f"place = {program} * {block} + tl.arange(0, {block})")
            self.masked = area * self.planes % block != 0
            if self.masked:
                out.add(f"inside = place < {area * self.planes}")
            self.plane_is_lane = True
            out.add(f"plane = place // {area}", f"place = place % {area}")
            programs = -(-area * self.planes // block)
        below = area
        for letter, window in zip(LETTERS, self.windows, strict=True):
            above, below = below, below // window.results
            text = "place" if below == 1 else f"place // {below}"
            text = text if above == area else f"{text} % {window.results}"
            out.add(f"{letter} = {text if window.results > 1 else '0'}")
        return programs

    # -- the window --------------------------------------------------------------------------------

    def _window(self, planes: Chain) -> None:
        out = self.out
        start = number(-math.inf) if self.is_max else "0.0"
        out.add(f"{self.value} = tl.full([{self.block}], {start}, tl.float32)")
        unrolled = math.prod(window.size for window in self.windows) <= UNROLLED
        loop = "tl.static_range" if unrolled else "range"
        places, checks = [], ["inside"] if self.masked else []
        for letter, window in zip(LETTERS, self.windows, strict=True):
            first = _first(window, letter)
            if window.size > 1:
                out.open(f"for step_{letter} in {loop}({window.size}):")
                by = f" * {window.dilation}" if window.dilation > 1 else ""
                first = f"{first} + step_{letter}{by}"
            out.add(f"at_{letter} = {first}")
            places.append(f"at_{letter}")
            if not window.is_inside:
                out.add(f"in_{letter} = (at_{letter} >= 0) & (at_{letter} < {window.length})")
                checks.append(f"in_{letter}")
        mask = " & ".join(checks)
        stage = self.before.stages[-1]
        for op in stage.ops:
            self._op(op, self.before, planes, places, mask, 0)
        value = stage.stores[0].value
        # In a lane beyond the last result nothing is stored, but a window's padding must be neutral.
        edges = " & ".join(check for check in checks if check != "inside")
        if edges:
            value = f"tl.where({edges}, {value}, {start})"
        out.add(
            f"{self.value} = _larger({self.value}, {value})" if self.is_max else f"{self.value} += {value}"
        )
        for window in self.windows:
            if window.size > 1:
                out.close()
        if not self.is_max:
            out.add(f"{self.value} = tl.div_rn({self.value}, {self._count()})")

    def _count(self) -> str:
        """How many elements of a window an average counts."""
        divisor = int(self.parameters["divisor"])
        if divisor:
            return number(divisor)
        padded = bool(self.parameters["count_padding"])
        counts = []
        for letter, window in zip(LETTERS, self.windows, strict=True):
            found = set(window.counts(padded))
            if len(found) == 1:
                counts.append(str(found.pop()))
                continue
            first = _first(window, letter)
            last = f"tl.minimum({first} + {window.size}, {window.length + window.padding})"
            if not padded:
                last, first = f"tl.minimum({last}, {window.length})", f"tl.maximum({first}, 0)"
            self.out.add(f"count_{letter} = {last} - ({first})")
            counts.append(f"count_{letter}")
        numbers = math.prod(int(item) for item in counts if item.isdigit())
        names = [item for item in counts if not item.isdigit()]
        if not names:
            return number(numbers)
        self.out.add(f"count = {' * '.join([*names, *([str(numbers)] if numbers > 1 else [])])}")
        return "count.to(tl.float32)"

    # -- memory ------------------------------------------------------------------------------------

    def _op(self, op: Op, side: Region, planes: Chain, places: list[str], mask: str, number_of: int) -> None:
        if op.fn != "load":
            self.out.add(f"{op.name} = {expression(op.fn, op.args)}")
            return
        operand = next(item for item in side.inputs if item.name == op.args[0])
        cast = "" if operand.dtype in {"float32", "bool"} else ".to(tl.float32)"
        place = self._pointer(operand, planes, places, number_of)
        if not self._walks(operand, side):
            mask = "inside" if self.masked and self.plane_is_lane and planes.terms(operand.strides) else ""
        given = f", mask={mask}" if mask else ""
        self.out.add(f"{op.name} = tl.load({place}{given}){cast}")

    def _walks(self, operand: Operand, side: Region) -> bool:
        """Whether an operand differs within a plane."""
        return any(
            step and axis.size > 1 and axis.role == "reduce"
            for step, axis in zip(operand.strides, side.axes, strict=True)
        )

    def _pointer(self, operand: Operand, planes: Chain, places: list[str], side: int) -> str:
        self.used.setdefault(operand.name)
        terms = planes.terms(operand.strides)
        for axis, place in zip(self.walked[side], places, strict=True):
            step = operand.strides[axis]
            if step and (self.before, self.after)[side].axes[axis].size > 1:
                terms.append(place if step == 1 else f"{place} * {step}")
        return address(operand, terms)

    def _finish(self, planes: Chain) -> None:
        """The epilogue, and the store."""
        mask, stage = "inside" if self.masked else "", self.after.stages[-1]
        for op in stage.ops:
            if op.fn == "load" and op.args[0] == self.value:
                self.out.add(f"{op.name} = {self.value}")
            else:
                self._op(op, self.after, planes, list(LETTERS), mask, 1)
        store = stage.stores[0]
        operand = next(item for item in self.after.outputs if item.name == store.operand)
        place = self._pointer(operand, planes, list(LETTERS), 1)
        self.out.add(f"tl.store({place}, {store.value}{f', mask={mask}' if mask else ''})")


def _first(window: Window, letter: str) -> str:
    """The first element of a result's window."""
    text = letter if window.stride == 1 else f"{letter} * {window.stride}"
    return f"{text} - {window.padding}" if window.padding else text
