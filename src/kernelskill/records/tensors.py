"""Shapes and layouts, without torch."""

from __future__ import annotations

import math

from kernelskill.records.base import Record

DTYPE_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "complex64": 8, "complex128": 16,
}  # fmt: skip
FLOATING = frozenset({"float64", "float32", "float16", "bfloat16"})


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


class TensorSpec(Record):
    """Shape, layout and element type of one tensor."""

    shape: tuple[int, ...]
    """Sizes, outermost first."""
    dtype: str
    """Element type as torch names it, without the `torch.` prefix."""
    stride: tuple[int, ...]
    """Strides in elements; 0 on an expanded axis."""

    @classmethod
    def contiguous(cls, shape: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
        """A row-major tensor of that shape."""
        return cls(shape=shape, dtype=dtype, stride=contiguous_stride(shape))

    @property
    def numel(self) -> int:
        """Number of logical elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def storage_elements(self) -> int:
        """Elements from the first to the last one addressed; smaller than numel when expanded."""
        if self.numel == 0:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of storage that the tensor spans."""
        return self.storage_elements * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the layout is row-major without gaps (axes of size 1 don't count)."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size != 1 and stride != step:
                return False
            step *= max(size, 1)
        return True
