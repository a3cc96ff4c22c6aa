"""What both forms of pooling print: which results a program makes, their windows, and the work before and after."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from kernelskill.program.program import Kernel
from kernelskill.program.region import Op, Operand, Region
from kernelskill.program.statements import ON_TILES, Statements, uses_in
from kernelskill.program.templates.window import first_of, windows
from kernelskill.program.triton.addresses import Chain, address, is_wide
from kernelskill.program.triton.around import Around
from kernelskill.program.triton.expressions import expression, number
from kernelskill.program.triton.names import finished
from kernelskill.program.triton.text import GpuFunction, Launch, Text

WASTE = 1.25
"""Lanes per result of a plane, beyond which programs don't keep to one plane."""
UNROLLED = 32
"""Loads of a lane that are written out, so that they are in flight together."""
LETTERS = "dhw"
"""Depth, height and width."""


class Pooling(ABC):
    """A pooling whose lanes each have a result, or one of each row of results.

    Args:
        kernel: whose body is the template.
        letters: dimensions of a plane that the lanes run over.

    Raises:
        ProgramError: its parameters are not those of a pooling.
    """

    def __init__(self, kernel: Kernel, letters: str) -> None:
        self.kernel = kernel
        self.around = Around.of(kernel)
        self.before, self.after, self.value = self.around.before, self.around.after, self.around.value
        self.parameters = self.around.parameters
        self.is_max = self.parameters["fold"] == "max"
        found = windows(self.parameters, self.before, self.after)
        self.windows = dict(zip(LETTERS, found, strict=True))
        self.letters = letters
        self.out = Text()
        self.area = math.prod(self.windows[letter].results for letter in letters)
        """Results of a plane, as far as the lanes run over them."""
        self.planes = self.before.rows
        wide = is_wide(self.before) or is_wide(self.after)
        self.program = "tl.program_id(0)" + (".to(tl.int64)" if wide else "")
        self.neutral = number(-math.inf) if self.is_max else "0.0"
        self.block = self._block()
        self.at = {letter: letter for letter in LETTERS}
        """Where a result is in its plane, dimension by dimension."""
        self.unrolled = UNROLLED
        """Elements of a window, or of its part in a row, that are folded without a loop."""
        self.masked = False
        self.plane_is_lane = False
        self._used: dict[str, None] = {}
        self._early: set[str] = set()
        """Values that were loaded ahead of all loops."""
        self._walked = [
            [i for i, axis in enumerate(side.axes) if axis.role == "reduce"]
            for side in (self.before, self.after)
        ]
        (self.first,) = self.before.stages
        self.last = finished(self.after, self.value, self.value)
        self._planes = [self._chain(self.before, "plane"), self._chain(self.after, "plane_out")]
        if self._planes[0].is_like(self._planes[1]):
            self._planes[1] = self._planes[0]

    @abstractmethod
    def _block(self) -> int:
        """Lanes of a program."""

    @abstractmethod
    def _warps(self) -> int:
        """Warps of a program whose schedule doesn't say."""

    @abstractmethod
    def _begin(self) -> int:
        """Print which results a program makes; returns the number of programs."""

    @abstractmethod
    def _results(self) -> None:
        """Print how they are made and stored."""

    def function(self) -> GpuFunction:
        """The launch."""
        programs = self._begin()
        slot = self.out.slot()
        self._load_early()
        self._results()
        for chain in dict.fromkeys(self._planes):
            chain.define(slot)
        warps = self.kernel.schedule.gpu.num_warps or self._warps()
        pointers = self.around.pointers(self._used)
        return self.around.function((Launch(f"_{self.kernel.name}", self.out, pointers, programs, warps),))

    def _chain(self, side: Region, label: str) -> Chain:
        axes = [i for i, axis in enumerate(side.axes) if axis.role == "parallel"]
        return Chain("plane", axes, [side.axes[i].size for i in axes], label)

    def _places(self, beside: int = 1) -> int:
        """Print where the lanes of a program are.

        Args:
            beside: neighbouring programs whose lanes are at the same places.

        Returns:
            The number of programs.
        """
        out, block, area = self.out, self.block, self.area
        blocks = -(-area // block)
        program = f"{self.program} // {beside}" if beside > 1 else self.program
        if self.planes == 1 or blocks * block <= WASTE * area:
            over = beside * blocks
            if self.planes > 1:
                out.add(f"plane = {self.program}" + (f" // {over}" if over > 1 else ""))
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
        for letter in self.letters:
            results = self.windows[letter].results
            above, below = below, below // results
            if results == 1:
                self.at[letter] = "0"
            elif results == area:
                self.at[letter] = "place"
            else:
                text = "place" if below == 1 else f"place // {below}"
                out.add(f"{letter} = {text if above == area else f'{text} % {results}'}")
        return programs * beside

    # -- the window --------------------------------------------------------------------------------

    def _full(self, name: str) -> None:
        """Print a value that nothing has been folded into."""
        self.out.add(f"{name} = tl.full([{self.block}], {self.neutral}, tl.float32)")

    def _fold(self, name: str, value: str) -> None:
        """Print that a value is folded into another."""
        self.out.add(f"{name} = _larger({name}, {value})" if self.is_max else f"{name} += {value}")

    def _fold_window(self, name: str, letters: str, places: dict[str, str], edges: Sequence[str]) -> None:
        """Print the loops over a window, or over the part of it that has one place along the other dimensions.

        Args:
            name: what it is folded into.
            letters: dimensions that the loops run over.
            places: where the elements are along the other dimensions.
            edges: conditions under which these are inside the input.
        """
        sizes = {letter: self.windows[letter].size for letter in letters}
        held, inner = math.prod(sizes.values()), [letter for letter in letters if sizes[letter] > 1][-1:]
        places, edges = dict(places), list(edges)
        for letter in letters:
            place = self._first(letter)
            if sizes[letter] > 1:
                self.out.open(f"for step_{letter} in {self._steps(sizes[letter], held, letter in inner)}:")
                place = behind(place, f"step_{letter}", self.windows[letter].dilation)
            places[letter] = self._place(letter, place, edges)
        self._fold_element(name, [places[letter] for letter in LETTERS], edges)
        for letter in letters:
            if sizes[letter] > 1:
                self.out.close()

    def _fold_element(self, name: str, places: Sequence[str], edges: Sequence[str]) -> None:
        """Print the work before the pooling on one element, and fold it."""
        masks = [*(["inside"] if self._leaves_memory() else []), *edges]
        said = Statements(expression, ON_TILES, uses_in([self.first]))
        value = self.first.stores[0].value
        for op in self.first.ops:
            # In a lane beyond the last result nothing is stored, but a window's padding must be neutral.
            other = f", other={self.neutral}" if edges and op.name == value else ""
            self._op(op, said, 0, places, " & ".join(masks), other)
        text = said.text(value)
        if edges and not any(
            op.fn == "load" and op.name == value and self._walks(op, 0) for op in self.first.ops
        ):
            text = f"tl.where({' & '.join(edges)}, {text}, {self.neutral})"
        self._fold(name, text)

    def _leaves_memory(self) -> bool:
        """Whether a lane beyond the last result would read what is not there."""
        if self.plane_is_lane or not self.masked:
            return self.masked
        outermost = next(letter for letter in self.letters if self.windows[letter].results > 1)
        return self.windows[outermost].is_inside

    def _steps(self, size: int, held: int, is_inner: bool) -> str:
        """What a loop over one dimension of the window runs over."""
        if held <= self.unrolled:
            return f"tl.static_range({size})"
        stages = self.kernel.schedule.gpu.num_stages
        return f"tl.range({size}, num_stages={stages})" if stages and is_inner else f"range({size})"

    def _place(self, letter: str, place: str, edges: list[str]) -> str:
        """Print a place along a dimension, and whether it is inside the input where it may not be."""
        if " " in place:
            self.out.add(f"at_{letter} = {place}")
            place = f"at_{letter}"
        if not self.windows[letter].is_inside:
            self.out.add(f"in_{letter} = ({place} >= 0) & ({place} < {self.windows[letter].length})")
            edges.append(f"in_{letter}")
        return place

    def _first(self, letter: str) -> str:
        """The first element of a result's window."""
        window = self.windows[letter]
        return str(-window.padding) if window.results == 1 else first_of(window, self.at[letter])

    def _divide(self) -> None:
        """Print that a sum is divided by the elements that an average counts."""
        self.out.add(f"{self.value} = tl.div_rn({self.value}, {self._count()})")

    def _count(self) -> str:
        """How many elements of a window an average counts."""
        divisor = int(self.parameters["divisor"])
        if divisor:
            return number(divisor)
        padded = bool(self.parameters["count_padding"])
        counts = []
        for letter, window in self.windows.items():
            found = set(window.counts(padded))
            if len(found) == 1:
                counts.append(str(found.pop()))
                continue
            first = self._first(letter)
            end = window.length + window.padding if padded else window.length
            last = f"tl.minimum({first} + {window.size}, {end})"
            first = f"({first})" if padded else f"tl.maximum({first}, 0)"
            self.out.add(f"count_{letter} = {last} - {first}")
            counts.append(f"count_{letter}")
        numbers = math.prod(int(item) for item in counts if item.isdigit())
        names = [item for item in counts if not item.isdigit()]
        if not names:
            return number(numbers)
        self.out.add(f"count = {' * '.join([*names, *([str(numbers)] if numbers > 1 else [])])}")
        return "count.to(tl.float32)"

    # -- memory ------------------------------------------------------------------------------------

    def _load_early(self) -> None:
        """Print the loads of what is the same all over a plane."""
        for side, stage in enumerate((self.first, self.last)):
            for op in stage.ops:
                if op.fn == "load" and not self._walks(op, side):
                    terms = self._planes[side].terms(self._operand(op, side).strides)
                    mask = "inside" if self.masked and self.plane_is_lane and terms else ""
                    self._load(op, side, (), mask)
                    self._early.add(op.name)

    def _op(
        self, op: Op, said: Statements, side: int, places: Sequence[str], mask: str, other: str = ""
    ) -> None:
        """Print one operation before (side 0) or after (side 1) the pooling."""
        if op.fn != "load":
            self.out.add(*(f"{due.name} = {text}" for due, text in said.of(op)))
        elif op.name not in self._early:
            self._load(op, side, places, mask, other)

    def _load(self, op: Op, side: int, places: Sequence[str], mask: str, other: str = "") -> None:
        operand = self._operand(op, side)
        cast = "" if operand.dtype in {"float32", "bool"} else ".to(tl.float32)"
        given = f", mask={mask}{other}" if mask else ""
        self.out.add(f"{op.name} = tl.load({self._pointer(operand, side, places)}{given}){cast}")

    def _operand(self, op: Op, side: int) -> Operand:
        return next(item for item in (self.before, self.after)[side].inputs if item.name == op.args[0])

    def _walks(self, op: Op, side: int) -> bool:
        """Whether a load's operand differs within a plane."""
        strides, axes = self._operand(op, side).strides, (self.before, self.after)[side].axes
        return any(
            step and axis.size > 1 and axis.role == "reduce" for step, axis in zip(strides, axes, strict=True)
        )

    def _pointer(self, operand: Operand, side: int, places: Sequence[str]) -> str:
        """The address of an operand; `places` are along depth, height and width, or none."""
        self._used.setdefault(operand.name)
        terms = self._planes[side].terms(operand.strides)
        for axis, place in zip(self._walked[side], places, strict=False):
            step = operand.strides[axis]
            if step and place != "0" and (self.before, self.after)[side].axes[axis].size > 1:
                terms.append(place if step == 1 else f"{place} * {step}")
        return address(operand, terms)

    def _after(self) -> str:
        """Print the work after the pooling; returns what is stored."""
        mask, said = "inside" if self.masked else "", Statements(expression, ON_TILES, uses_in([self.last]))
        for op in self.last.ops:
            self._op(op, said, 1, list(self.at.values()), mask)
        return said.text(self.last.stores[0].value)

    def _store(self, value: str) -> None:
        stored = self.last.stores[0].operand
        operand = next(item for item in self.after.outputs if item.name == stored)
        place = self._pointer(operand, 1, list(self.at.values()))
        self.out.add(f"tl.store({place}, {value}{', mask=inside' if self.masked else ''})")


def behind(place: str, index: str, distance: int) -> str:
    """The place some steps behind another one."""
    steps = index if distance == 1 else f"{index} * {distance}"
    return steps if place == "0" else f"{place} + {steps}"
