"""Placed values -> Region: which stage computes what, operands with strides, axes merged where memory allows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.program.identifiers import RESERVED, identifier
from kernelskill.program.region import Axis, Op, Operand, Reduction, Region, Stage, Store
from kernelskill.program.values import TOTAL_LEVEL, Builder, Value
from kernelskill.records import TensorSpec, contiguous_stride

__all__ = ["Assembly", "check_known", "identifier"]

NAMES = {
    "softmax": "row_sum", "sum": "total", "total": "grand_total", "max": "row_max", "min": "row_min", "prod": "product",
    "argmax": "position", "argmin": "position", "any": "some", "all": "every",
}  # fmt: skip
"""What values are called that would else have the name of what makes them, which functions of the language have."""
SUPPORTED = frozenset(["float32", "float16", "bfloat16", "bool", "int64", "int32", "uint8", "int8", "int16"])


class Assembly:
    """Builds the region of a kernel whose values are placed."""

    def __init__(
        self,
        builder: Builder,
        outputs: list[tuple[Value, TensorSpec, str]],
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self.builder = builder
        self.titles = titles or {}
        """Values from outside -> what they are called."""
        self.outputs = outputs
        """(value, layout of the result, name of the result)."""
        self.taken: set[str] = set()
        self.names: dict[int, str] = {}
        self.inputs: list[tuple[Value, Operand]] = []

    def region(self) -> Region:
        """The kernel's loop nest."""
        live = self._live()
        for value in live:
            if value.kind == "load":
                self.inputs.append((value, self._operand(value)))
        targets = [identifier(name, self.taken) for _, _, name in self.outputs]
        for value, target in zip(self._roots(), targets, strict=True):
            if value.kind == "op" and value.fn in scalar.ALL and value.name == value.fn:
                self.names.setdefault(id(value), identifier(f"{target}_j", self.taken))
        for value in live:
            if id(value) not in self.names:
                self.names[id(value)] = self._name(value)
        outputs = [
            self._result(value, spec, name)
            for (value, spec, _), name in zip(self.outputs, targets, strict=True)
        ]
        stages, total, total_stage = self._stages(live, targets)
        axes, operands = self._merged([operand for _, operand in self.inputs], outputs)
        count = len(self.inputs)
        return Region(
            axes=axes,
            inputs=tuple(operands[:count]),
            outputs=tuple(operands[count:]),
            stages=stages,
            total=total,
            total_stage=total_stage,
        )

    def input_refs(self) -> list[Value]:
        """The loads, in order of the region's inputs."""
        return [value for value, _ in self.inputs]

    # -- values ------------------------------------------------------------------------------------

    def _args(self, value: Value) -> tuple[Value | float, ...]:
        """Arguments of a value, without the copies that only give one another shape."""
        given = tuple(_origin(item) for item in value.args)
        # One argument keeps its name: constants beside constants are no vectors.
        has_values = any(isinstance(item, Value) for item in given)
        return given if has_values or not value.args else (value.args[0], *given[1:])

    def _live(self) -> list[Value]:
        seen: set[int] = set()

        def visit(value: Value) -> None:
            if id(value) in seen:
                return
            seen.add(id(value))
            for item in self._args(value):
                if isinstance(item, Value):
                    visit(item)

        for value in self._roots():
            visit(value)
        return [value for value in self.builder.order if id(value) in seen]

    def _roots(self) -> list[Value]:
        """What is stored, in order of the outputs."""
        found = (_origin(value) for value, _, _ in self.outputs)
        return [
            item if isinstance(item, Value) else value
            for item, (value, _, _) in zip(found, self.outputs, strict=True)
        ]

    def _name(self, value: Value) -> str:
        if value.fn == "softmax_max":
            (folded,) = value.args
            assert isinstance(folded, Value)
            return Reduction(name=self.names[id(folded)], fold="softmax", value="").top
        name = NAMES.get(value.name, value.name)
        if value.kind == "op" and name == value.fn:
            name = f"{name}_{self._suffix(value)}" if name in RESERVED or self._suffix(value) == "j" else name
        return identifier(name, self.taken)

    def _suffix(self, value: Value) -> str:
        """What the name of a value ends with: `j` where elements have values of their own."""
        return "value" if self.builder.space.reduce and self.builder.is_row(value) else "j"

    def _operand(self, value: Value) -> Operand:
        assert value.spec is not None
        spec = value.spec
        if spec.dtype not in SUPPORTED:
            raise ProgramError(f"{value.name} is {spec.dtype}: kernels compute in float32")
        name = identifier(self.titles.get(value.name, value.name), self.taken)
        self.names[id(value)] = identifier(f"{name}_{self._suffix(value)}", self.taken)
        return Operand(name=name, dtype=spec.dtype, strides=self._strides(value, spec), offset=value.offset)

    def _result(self, value: Value, spec: TensorSpec, name: str) -> Operand:
        if spec.dtype not in {"float32", "float16", "bfloat16", "bool"} and not (
            spec.dtype == "int64" and value.is_position
        ):
            raise ProgramError(f"a result of {spec.dtype} is not computed by kernels")
        if (spec.dtype == "bool") != value.is_mask:
            raise ProgramError("a mask is stored as bool and nothing else is")
        if self.builder.shape(value) != spec.shape:
            raise ProgramError(f"result of shape {spec.shape} comes out as {self.builder.shape(value)}")
        return Operand(name=name, dtype=spec.dtype, strides=self._strides(value, spec))

    def _strides(self, value: Value, spec: TensorSpec) -> tuple[int, ...]:
        space = self.builder.space
        strides = [0] * len(space.sizes)
        for axes, step in zip(value.dims, spec.stride, strict=True):
            sizes = tuple(space.sizes[axis] for axis in axes)
            for axis, within in zip(axes, contiguous_stride(sizes), strict=True):
                strides[axis] = step * within
        return tuple(strides)

    # -- stages ------------------------------------------------------------------------------------

    def _stages(
        self, live: list[Value], targets: list[str]
    ) -> tuple[tuple[Stage, ...], tuple[Reduction, ...], Stage | None]:
        builder = self.builder
        levels = sorted({value.level for value in live if value.level < TOTAL_LEVEL} | {0})
        stages: list[Stage] = []
        for level in levels:
            known = [
                value
                for value in live
                if value.level == level and value.kind == "op" and builder.is_row(value)
            ]
            if level and known:
                stages.append(self._scalar(known, level, targets))
            elif level and self._stores(level, targets):
                stages.append(self._scalar([], level, targets))
            folds = [value for value in live if value.kind == "reduction" and value.level == level + 1]
            stages += [self._reduce([value]) for value in folds if value.fn == "softmax"]
            plain = [value for value in folds if value.fn != "softmax"]
            if plain:
                stages.append(self._reduce(plain))
        full = [
            (value, name)
            for value, name in zip(self._roots(), targets, strict=True)
            if not (builder.is_row(value) and value.level > 0)
        ]
        if full:
            stages.append(
                Stage(
                    kind="map",
                    ops=self._ops([value for value, _ in full]),
                    stores=tuple(Store(operand=name, value=self._text(value)) for value, name in full),
                )
            )
        return tuple(stages), *self._total(live, targets)

    def _reduce(self, folds: list[Value]) -> Stage:
        return Stage(
            kind="reduce",
            ops=self._ops([self._args(value)[0] for value in folds]),
            reductions=tuple(
                Reduction(name=self._text(value), fold=value.fn, value=self._text(self._args(value)[0]))  # type: ignore[arg-type]
                for value in folds
            ),
        )

    def _total(self, live: list[Value], targets: list[str]) -> tuple[tuple[Reduction, ...], Stage | None]:
        totals = [value for value in live if value.kind == "total"]
        if not totals:
            return (), None
        folds = tuple(
            Reduction(name=self._text(value), fold="sum", value=self._text(self._args(value)[0]))
            for value in totals
        )
        after = [value for value in live if value.level >= TOTAL_LEVEL and value.kind == "op"]
        ops = [self._op(item) for value in after for item in (*self._needs(value), value)]
        stage = Stage(
            kind="scalar",
            ops=tuple({op.name: op for op in ops}.values()),
            stores=tuple(
                Store(operand=name, value=self._text(value))
                for value, name in zip(self._roots(), targets, strict=True)
                if value.level >= TOTAL_LEVEL
            ),
        )
        return folds, stage

    def _scalar(self, known: list[Value], level: int, targets: list[str]) -> Stage:
        """What is computed once per row when the folds of a level are known."""
        ops: list[Op] = []
        for value in known:
            if value.fn == "softmax_max":
                continue
            for item in self._needs(value):
                ops.append(self._op(item))
            ops.append(self._op(value))
        unique = tuple({op.name: op for op in ops}.values())
        return Stage(kind="scalar", ops=unique, stores=self._stores(level, targets))

    def _needs(self, value: Value) -> list[Value]:
        """Per-row values of level 0 (loads and what is computed of them) that a per-row value uses."""
        found: list[Value] = []
        for item in self._args(value):
            if isinstance(item, Value) and item.level == 0:
                found += [*self._needs(item), item]
        return found

    def _stores(self, level: int, targets: list[str]) -> tuple[Store, ...]:
        return tuple(
            Store(operand=name, value=self._text(value))
            for value, name in zip(self._roots(), targets, strict=True)
            if value.level == level and self.builder.is_row(value)
        )

    def _ops(self, roots: list[Value | float]) -> tuple[Op, ...]:
        """Everything that must be computed per element for these values, in order."""
        ops: dict[str, Op] = {}

        def visit(value: Value | float) -> None:
            if not isinstance(value, Value) or value.kind in {"reduction", "total"}:
                return
            if value.level > 0 and self.builder.is_row(value):
                return
            for item in self._args(value):
                visit(item)
            if self._text(value) not in ops:
                ops[self._text(value)] = self._op(value)

        for root in roots:
            visit(root)
        return tuple(ops.values())

    def _op(self, value: Value) -> Op:
        if value.kind == "load":
            return Op(name=self._text(value), fn="load", args=(self._operand_name(value),))
        return Op(
            name=self._text(value),
            fn=value.fn,
            args=tuple(
                self._text(item) if isinstance(item, Value) else _spelled(item) for item in self._args(value)
            ),
        )

    def _operand_name(self, value: Value) -> str:
        return next(operand.name for item, operand in self.inputs if item is value)

    def _text(self, value: Value | float) -> str:
        assert isinstance(value, Value)
        return self.names[id(value)]

    # -- axes --------------------------------------------------------------------------------------

    def _merged(
        self, inputs: list[Operand], outputs: list[Operand]
    ) -> tuple[tuple[Axis, ...], list[Operand]]:
        """Drop axes of one step; merge neighbours of one role that every operand walks as one."""
        space = self.builder.space
        operands = [*inputs, *outputs]
        axes: list[tuple[int, bool]] = []
        columns: list[list[int]] = []
        indexed = any(value.fn == "index" for value in self.builder.order)
        for axis, size in enumerate(space.sizes):
            if size == 1:
                continue
            reduce = axis in space.reduce
            column = [operand.strides[axis] for operand in operands]
            if axes and axes[-1][1] == reduce and not (indexed and reduce):
                last = columns[-1]
                if all(above == below * size for above, below in zip(last, column, strict=True)):
                    axes[-1] = (axes[-1][0] * size, reduce)
                    columns[-1] = column
                    continue
            axes.append((size, reduce))
            columns.append(column)
        if not axes:
            axes, columns = [(1, bool(space.reduce))], [[0] * len(operands)]
        if space.reduce and not any(reduce for _, reduce in axes):
            axes.append((1, True))
            columns.append([0] * len(operands))
        merged = [
            operand.model_copy(update={"strides": tuple(column[place] for column in columns)})
            for place, operand in enumerate(operands)
        ]
        return (
            tuple(Axis(size=size, role="reduce" if reduce else "parallel") for size, reduce in axes),
            merged,
        )


def _origin(item: Value | float) -> Value | float:
    """What a copy is of; anything else as it is."""
    while isinstance(item, Value) and item.kind == "op" and item.fn == "copy":
        item = item.args[0]
    return item


def _spelled(number: float) -> str | float:
    return float(number) if math.isfinite(number) else str(float(number))


def check_known(region: Region) -> None:
    """Every operation can be printed.

    Raises:
        ProgramError: one cannot.
    """
    for stage in region.stages:
        for op in stage.ops:
            if op.fn not in scalar.ALL:
                raise ProgramError(f"operation {op.fn} cannot be printed")
