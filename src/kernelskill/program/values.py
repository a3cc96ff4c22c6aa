"""The values of a kernel under construction, placed in its iteration space.

The space is given by a logical shape whose dimensions may be split into several axes (group normalisation splits
channels into groups). Every value knows which axes each of its own dimensions runs over; a value that runs over no
reduce axis is one number per row. Its level says how many walks over the row must be over before it is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.records import Ref, TensorSpec

Dims = tuple[tuple[int, ...], ...]
"""Per dimension of a value, the axes that it runs over, outermost first; () = size 1."""

TOTAL_LEVEL = 1000
"""Level of what is known only after all rows."""


class SplitAxis(ProgramError):
    """An axis of the space must be split in two before the kernel can be built."""

    def __init__(self, axis: int, sizes: tuple[int, int]) -> None:
        super().__init__(f"a view parts an axis into {sizes[0]} x {sizes[1]}")
        self.axis = axis
        self.sizes = sizes


@dataclass(eq=False)
class Value:
    """One value of the kernel."""

    kind: str
    """`load`, `op`, `reduction` or `total`."""
    fn: str
    args: tuple[Value | float, ...]
    dims: Dims
    level: int
    name: str
    operand: Ref | None = None
    is_mask: bool = False
    spec: TensorSpec | None = None
    """Of a load: layout of the tensor, or of the view of it, that is read."""
    offset: int = 0
    """Of a load: elements from the tensor's first one."""
    is_position: bool = False
    """Whether it is the place of an extreme in its row (a whole number, stored as int64)."""


@dataclass
class Space:
    """Axes of the kernel, and the logical shape that they come from."""

    sizes: list[int]
    reduce: set[int]
    dims: Dims

    @classmethod
    def of(
        cls, shape: tuple[int, ...], reduced: set[int], split: dict[int, tuple[int, ...]] | None = None
    ) -> Space:
        """A space over a logical shape.

        Args:
            shape: logical shape.
            reduced: axes (counted after splitting) that are folded.
            split: dimension -> sizes that it is split into.
        """
        sizes: list[int] = []
        dims: list[tuple[int, ...]] = []
        for index, size in enumerate(shape):
            parts = (split or {}).get(index, (size,))
            dims.append(tuple(range(len(sizes), len(sizes) + len(parts))))
            sizes.extend(parts)
        return cls(sizes, reduced, tuple(dims))

    def extent(self, axes: tuple[int, ...]) -> int:
        """Size of a dimension that runs over these axes."""
        return math.prod(self.sizes[axis] for axis in axes)

    def split(self, axis: int, sizes: tuple[int, int]) -> Space:
        """The space with one axis as two, the first the outer one."""

        def moved(old: int) -> tuple[int, ...]:
            return (old, old + 1) if old == axis else (old + 1,) if old > axis else (old,)

        return Space(
            [*self.sizes[:axis], *sizes, *self.sizes[axis + 1 :]],
            {new for old in self.reduce for new in moved(old)},
            tuple(tuple(new for old in axes for new in moved(old)) for axes in self.dims),
        )


@dataclass
class Builder:
    """Places values in a space."""

    space: Space
    specs: dict[tuple[str, int], TensorSpec]
    """Layouts of the values that come from outside the kernel."""
    values: dict[tuple[str, int], Value] = field(default_factory=dict)
    """Results of nodes inside the kernel."""
    order: list[Value] = field(default_factory=list)
    """All values, in the order of their making."""
    loads: dict[tuple[str, int, Dims, int, tuple[int, ...]], Value] = field(default_factory=dict)

    # -- making values -----------------------------------------------------------------------------

    def load(self, ref: Ref, dims: Dims, spec: TensorSpec | None = None, offset: int = 0) -> Value:
        """A value from outside (or, given a layout and an offset, a view of it), seen along `dims`."""
        spec = spec or self.specs[ref.node, ref.output]
        key = (ref.node, ref.output, dims, offset, spec.stride)
        if key not in self.loads:
            for size, axes in zip(spec.shape, dims, strict=True):
                if axes and self.space.extent(axes) != size:
                    raise ProgramError(f"{ref.node} of shape {spec.shape} does not fit the space")
            self.loads[key] = self._new(
                Value("load", "load", (), dims, 0, ref.node, ref, spec.dtype == "bool", spec, offset)
            )
        return self.loads[key]

    def emit(self, fn: str, *args: Value | float, name: str = "") -> Value:
        """A scalar operation on values that are already placed, perhaps under a name that tells what it is."""
        fn, args = self._typed(fn, args)
        placed = [item for item in args if isinstance(item, Value)]
        if not placed:
            return self._new(Value("op", "copy", args, (), 0, "constant"))
        dims = self._joined([item.dims for item in placed])
        level = max(item.level for item in placed)
        mask = fn in scalar.MASKS or (fn == "where" and all(self._masked(item) for item in args[1:]))
        return self._new(Value("op", fn, args, dims, level, name or fn, is_mask=mask))

    def fold(self, fold: str, value: Value, keepdim: bool = True, dims: set[int] | None = None) -> Value:
        """A fold over all reduce axes (or over all rows, for a value of the row)."""
        if fold in {"any", "all"}:
            value = value if not value.is_mask else self.emit("to_float", value)
        elif value.is_mask:
            value = self.emit("to_float", value)
        if not self.is_row(value):
            kept = tuple(
                () if set(axes) & self.space.reduce else axes
                for index, axes in enumerate(value.dims)
                if keepdim
                or not (index in (dims or set()) if dims is not None else set(axes) & self.space.reduce)
            )
            squares = value.fn == "mul" and value.args[0] is value.args[1]
            name = "squares" if squares and fold == "sum" else fold
            result = self._new(Value("reduction", fold, (value,), kept, value.level + 1, name))
        elif fold == "sum" and value.level >= 1:
            result = self._new(Value("total", fold, (value,), (), TOTAL_LEVEL, "total"))
        else:
            raise ProgramError(f"a {fold} over rows does not fit this kernel")
        return result

    @property
    def row_length(self) -> int:
        """Elements of a row."""
        return math.prod(self.space.sizes[axis] for axis in self.space.reduce)

    def index(self) -> Value:
        """The position along the only reduce axis, as a float."""
        if len(self.space.reduce) != 1:
            raise ProgramError("an index needs one reduce axis")
        (axis,) = self.space.reduce
        if self.space.sizes[axis] > 1 << 24:
            raise ProgramError("indices above 2^24 are not exact in float32")
        return self._new(Value("op", "index", (), ((axis,),), 0, "index"))

    # -- looking at values -------------------------------------------------------------------------

    def is_row(self, value: Value) -> bool:
        """Whether the value is one number per row."""
        return not any(set(axes) & self.space.reduce for axes in value.dims)

    def shape(self, value: Value) -> tuple[int, ...]:
        """Sizes of a value's dimensions."""
        return tuple(self.space.extent(axes) for axes in value.dims)

    def aligned(self, spec: TensorSpec, like: Dims | None = None) -> Dims:
        """Dims of a tensor beside others: right-aligned, size 1 runs over nothing.

        Raises:
            ProgramError: the shape does not broadcast to the space.
        """
        pattern = like if like is not None else self.space.dims
        if len(spec.shape) > len(pattern):
            raise ProgramError(f"shape {spec.shape} has more dimensions than the space")
        tail = pattern[len(pattern) - len(spec.shape) :]
        dims: list[tuple[int, ...]] = []
        for size, axes in zip(spec.shape, tail, strict=True):
            if size == 1:
                dims.append(())
            elif self.space.extent(axes) == size and axes:
                dims.append(axes)
            else:
                raise ProgramError(f"shape {spec.shape} does not broadcast to the space")
        return tuple(dims)

    def _joined(self, several: list[Dims]) -> Dims:
        """Dims of the result of an operation on values of these dims (broadcasting)."""
        rank = max(len(dims) for dims in several)
        joined: list[tuple[int, ...]] = []
        for place in range(rank):
            found: set[tuple[int, ...]] = set()
            for dims in several:
                position = place - (rank - len(dims))
                if position >= 0 and dims[position]:
                    found.add(dims[position])
            if len(found) > 1:
                raise ProgramError("values run over different axes at the same place")
            joined.append(found.pop() if found else ())
        return tuple(joined)

    def _typed(self, fn: str, args: tuple[Value | float, ...]) -> tuple[str, tuple[Value | float, ...]]:
        """Masks become numbers where numbers are computed with; casts between the two are made plain."""
        if fn == "cast":
            return "copy", args
        if fn in scalar.LOGIC or fn == "not":
            return fn, tuple(self._mask(item) for item in args)
        if fn == "where":
            chosen = args[1:]
            if not all(self._masked(item) for item in chosen):
                chosen = tuple(self._number(item) for item in chosen)
            return fn, (self._mask(args[0]), *chosen)
        if fn in {"to_float", "to_mask", "copy"}:
            return fn, args
        return fn, tuple(self._number(item) for item in args)

    def _masked(self, item: Value | float) -> bool:
        return isinstance(item, Value) and item.is_mask

    def _number(self, item: Value | float) -> Value | float:
        return self.emit("to_float", item) if isinstance(item, Value) and item.is_mask else item

    def _mask(self, item: Value | float) -> Value | float:
        if isinstance(item, Value):
            return item if item.is_mask else self.emit("to_mask", item)
        raise ProgramError("a mask cannot be a number")

    def _new(self, value: Value) -> Value:
        if value.kind == "op" and value.fn == "copy" and isinstance(value.args[0], Value):
            value.is_mask = value.args[0].is_mask
            value.is_position = value.args[0].is_position
        self.order.append(value)
        return value
