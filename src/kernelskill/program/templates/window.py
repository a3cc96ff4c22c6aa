"""The windows of a pooling, dimension by dimension: what both printers read of its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.errors import ProgramError
from kernelskill.program.region import Region
from kernelskill.records import Json


@dataclass(frozen=True)
class Window:
    """One dimension of the window."""

    size: int
    stride: int
    padding: int
    dilation: int
    length: int
    """Elements of the input."""
    results: int

    @property
    def span(self) -> int:
        """Elements from the first to the last one of the window."""
        return (self.size - 1) * self.dilation + 1

    @property
    def is_single(self) -> bool:
        """Whether there is one window, which begins at the first element."""
        return self.results == 1 and self.padding == 0

    @property
    def is_in_step(self) -> bool:
        """Whether each window begins at the element of its own number."""
        return self.stride == 1 and self.padding == 0

    @property
    def begins_inside(self) -> bool:
        """Whether no window reaches into the padding before the input."""
        return self.padding == 0

    @property
    def ends_inside(self) -> bool:
        """Whether no window reaches into the padding behind the input."""
        return (self.results - 1) * self.stride - self.padding + self.span <= self.length

    @property
    def is_inside(self) -> bool:
        """Whether no window reaches into the padding."""
        return self.begins_inside and self.ends_inside

    def counts(self, with_padding: bool) -> list[int]:
        """Elements of each window that an average counts."""
        found = []
        for place in range(self.results):
            begin = place * self.stride - self.padding
            end = min(begin + self.size, self.length + self.padding)
            found.append(end - begin if with_padding else min(end, self.length) - max(begin, 0))
        return found


def windows(parameters: dict[str, Json], before: Region, after: Region) -> tuple[Window, Window, Window]:
    """Depth, height and width of a pooling."""
    lengths = [axis.size for axis in before.axes if axis.role == "reduce"]
    results = [axis.size for axis in after.axes if axis.role == "reduce"]
    if len(lengths) != 3 or len(results) != 3:
        raise ProgramError("pooling walks depth, height and width")
    kernel, stride, padding, dilation = (
        parameters[name] for name in ("kernel", "stride", "padding", "dilation")
    )
    depth, height, width = (
        Window(int(kernel[d]), int(stride[d]), int(padding[d]), int(dilation[d]), lengths[d], results[d])
        for d in range(3)
    )
    return depth, height, width


def first_of(window: Window, index: str) -> str:
    """The first element of a window, perhaps in the padding."""
    text = index if window.stride == 1 else f"{index} * {window.stride}"
    return f"{text} - {window.padding}" if window.padding else text
