"""Places in memory: one linear index is parted into the indices of axes, as far as an operand's strides need it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelskill.program.region import Axis, Operand, Region
from kernelskill.program.triton.text import Text, pointer

LARGEST_INT32 = 2**31 - 1


class Chain:
    """Axes that one index runs over, outermost first."""

    def __init__(self, name: str, axes: Sequence[int], sizes: Sequence[int], label: str = "") -> None:
        self.name = name
        self.label = label or name
        """What the names of its parts begin with."""
        kept = [(axis, size) for axis, size in zip(axes, sizes, strict=True) if size > 1]
        self.axes = tuple(axis for axis, _ in kept)
        self.sizes = tuple(size for _, size in kept)
        self._parts: dict[str, str] = {}
        self.constant: set[str] = set()
        """Terms that are the same in all lanes of a block."""
        self.asked = False
        """Whether some operand's place needs it."""
        self.step = 0
        """If not 0, the index is `start` plus a lane, and all lanes have the same outer indices."""

    def terms(self, strides: Sequence[int]) -> list[str]:
        """The summands of an operand's place, given the strides of all axes."""
        found: list[str] = []
        end = len(self.axes)
        while end:
            begin = end - 1
            step = strides[self.axes[begin]]
            while begin and strides[self.axes[begin - 1]] == strides[self.axes[begin]] * self.sizes[begin]:
                begin -= 1
            if step:
                self.asked = True
                index = self._index(begin, end)
                term = index if step == 1 else f"{index} * {step}"
                if self.step and end < len(self.axes) and math.prod(self.sizes[end:]) % self.step == 0:
                    self.constant.add(term)
                found.append(term)
            end = begin
        return found[::-1]

    def _index(self, begin: int, end: int) -> str:
        """A variable for the combined index of neighbouring axes."""
        if begin == 0 and end == len(self.axes):
            return self.name
        below, size = math.prod(self.sizes[end:]), math.prod(self.sizes[begin:end])
        first = below % self.step == 0 if self.step and below > 1 else False
        source = "start" if first else self.name
        text = source if below == 1 else f"{source} // {below}"
        if begin:
            within = self.step and below == 1 and size % self.step == 0
            text = f"start % {size} + lane" if within else f"{text} % {size}"
        name = f"{self.label}_{'_'.join(map(str, range(begin, end)))}"
        self._parts[name] = text
        return name

    def is_like(self, other: Chain) -> bool:
        """Whether another index runs over the same axes of as many steps."""
        return (self.name, self.axes, self.sizes) == (other.name, other.axes, other.sizes)

    @property
    def parts_lanes(self) -> bool:
        """Whether a variable is made of `start` or `lane` alone."""
        return any("start" in value or "lane" in value for value in self._parts.values())

    def define(self, text: Text) -> None:
        """Print the variables that the terms asked for."""
        text.add(*(f"{name} = {value}" for name, value in self._parts.items()))


def span(operand: Operand, axes: Sequence[Axis], only: Sequence[int] | None = None) -> int:
    """Elements from the first to the last place that an operand touches along some axes, less one."""
    chosen = range(len(axes)) if only is None else only
    return sum(abs(operand.strides[axis]) * (axes[axis].size - 1) for axis in chosen)


def is_wide(region: Region, only: Sequence[int] | None = None) -> bool:
    """Whether places need 64 bits."""
    operands = (*region.inputs, *region.outputs)
    elements = math.prod(axis.size for axis in region.axes)
    reach = max((span(item, region.axes, only) + item.offset for item in operands), default=0)
    return max(reach, elements if only is None else 0) > LARGEST_INT32 - 65536


def address(operand: Operand, terms: Sequence[str]) -> str:
    """A pointer and its summands."""
    return " + ".join([pointer(operand.name), *([str(operand.offset)] if operand.offset else []), *terms])


def up_to_power_of_two(count: int) -> int:
    """The smallest power of two that is not below `count`."""
    return 1 << max(0, count - 1).bit_length()
