"""Region + schedule -> the body of one C++ function: what all shapes of loop nest share, and the plain map.

`rows.py` has the rows whose elements are contiguous, `strided.py` those whose elements lie apart, and
`templates.pointwise` the work around scans and pooling. A body that serves whole registers and the shorter one at the
end of a stretch is a lambda whose last argument, if there is one, is the number of elements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelskill.program import scalar
from kernelskill.program.lines import Lines
from kernelskill.program.region import Op, Operand, Region, Stage
from kernelskill.program.schedule import Schedule
from kernelskill.program.statements import ON_VECTORS, Statements, still_needed, uses_in

__all__ = ["TYPES", "Lines", "MapNest", "Nest", "Stretch", "touched"]


@dataclass(frozen=True)
class Stretch:
    """Contiguous elements that a loop walks: from `begin` to `end`, which is one of several `lengths` away."""

    begin: str
    end: str
    lengths: tuple[int, ...]

    def reaches(self, step: int) -> bool:
        """Whether a loop by this step is ever entered."""
        return any(length >= step for length in self.lengths)

    def leaves(self, step: int, least: int = 1) -> bool:
        """Whether a loop by this step may leave as many elements behind."""
        return any(length % step >= least for length in self.lengths)


class Nest:
    """Prints one region."""

    def __init__(self, region: Region, schedule: Schedule) -> None:
        self.region = region
        self.schedule = schedule
        self.lanes = schedule.lanes
        self.out = Lines()
        self.inputs = {operand.name: operand for operand in region.inputs}
        self.outputs = {operand.name: operand for operand in region.outputs}
        self.row_values: set[str] = set()
        """Names that hold one float per row."""
        self.kept: dict[str, str] = {}
        """Values of each element that an earlier walk has left in an array: name -> array."""
        self.said = Statements(self._on_vectors, ON_VECTORS, Counter())
        """The statements of the stage that is being printed."""
        self.n = self.takes_n = ""
        """The number of elements, as an argument and as a parameter; "" where all registers are full."""

    def begin(self) -> None:
        """What every function starts with."""
        self.out.add(f"using F = floats{self.lanes};")
        self.out.add(*(f"{item.name} += {item.offset};" for item in self.region.inputs if item.offset))

    def fill(self, *lengths: int) -> None:
        """Note whether registers along stretches of these lengths are full."""
        whole = any(length >= self.lanes for length in lengths)
        rest = any(length % self.lanes for length in lengths)
        self.n = "" if not rest else ", n..." if whole else ", n"
        self.takes_n = "" if not rest else ", auto... n" if whole else ", int n"

    # -- parallel loops ----------------------------------------------------------------------------

    def parallel(self, tasks: int, elements: int, clauses: str = "") -> None:
        """The pragma before a loop over independent tasks, if the work is worth a second thread."""
        most = min(tasks, max(1, elements // self.schedule.grain))
        if self.schedule.threads:
            most = min(most, self.schedule.threads)
        if most <= 1:
            return
        count = f"std::min(threads, {most})" if most < 64 else "threads"
        self.out.add(f"#pragma omp parallel for num_threads({count}) schedule(static){clauses}")

    def _elements(self) -> int:
        return math.prod(axis.size for axis in self.region.axes)

    def _unroll(self) -> None:
        if self.schedule.unroll > 1:
            self.out.add(f"#pragma GCC unroll {self.schedule.unroll}")

    # -- walks -------------------------------------------------------------------------------------

    def _walk(self, stage: Stage, pointers: dict[str, str], axis: int, stretch: Stretch) -> None:
        """Compute and store a stretch, register by register, the last one perhaps not full."""
        lanes, out = self.lanes, self.out
        if not self.n:
            self._unroll()
            out.open(f"for (long j = {stretch.begin}; j < {stretch.end}; j += {lanes})")
            self._computed(stage, pointers, axis)
            out.close()
            return
        out.open(f"auto step = [&](long j{self.takes_n})")
        self._computed(stage, pointers, axis)
        out.close(";")
        if stretch.begin == "0" and len(stretch.lengths) == 1:
            (length,) = stretch.lengths
            whole = length // lanes * lanes
            if whole:
                self._unroll()
                out.add(f"for (long j = 0; j < {whole}; j += {lanes}) step(j);")
            out.add(f"step({whole}, {length % lanes});")
            return
        out.add(f"long j = {stretch.begin};")
        self._unroll()
        out.add(
            f"for (; j + {lanes} <= {stretch.end}; j += {lanes}) step(j);",
            f"if (j < {stretch.end}) step(j, ({stretch.end} - j) % {lanes});",
        )

    def _computed(self, stage: Stage, pointers: dict[str, str], axis: int) -> None:
        self._vector_ops(stage, pointers, axis)
        self._stored(stage, pointers, axis)

    def _stored(self, stage: Stage, pointers: dict[str, str], axis: int) -> None:
        for store in stage.stores:
            operand = self.outputs[store.operand]
            self.out.add(
                self._store(operand, pointers[operand.name], self._value(store.value), operand.strides[axis])
            )

    # -- pointers ----------------------------------------------------------------------------------

    def _whole(self) -> dict[str, str]:
        """Pointers as they come."""
        return {name: name for name in (*self.inputs, *self.outputs)}

    def _row_pointers(self, axes: Iterable[int], index: str) -> dict[str, str]:
        """Pointers to the first element of a row, given its number."""
        return self._moved(self._whole(), list(axes), index, "_row")

    def _moved(
        self, pointers: dict[str, str], axes: list[int], index: str, suffix: str, only: set[str] | None = None
    ) -> dict[str, str]:
        """Pointers advanced along some axes by a combined index; those not in `only` stay."""
        moved = dict(pointers)
        sizes = [self.region.axes[axis].size for axis in axes]
        for name in pointers:
            if only is not None and name not in only:
                continue
            operand = self.inputs.get(name) or self.outputs[name]
            terms = []
            for place, axis in enumerate(axes):
                step = operand.strides[axis]
                if step == 0 or sizes[place] == 1:
                    continue
                below = math.prod(sizes[place + 1 :])
                above = math.prod(sizes[:place])
                term = f"({index})" if " " in index and below > 1 else index
                term = term if below == 1 else f"{term} / {below}"
                term = term if above == 1 else f"{term} % {sizes[place]}"
                term = f"({term})" if " " in term and step != 1 else term
                terms.append(term if step == 1 else f"{term} * {step}L")
            if terms:
                constant = "const " if name in self.inputs else ""
                moved[name] = f"{name}{suffix}"
                self.out.add(
                    f"{constant}{TYPES[operand.dtype]}* {moved[name]} = {pointers[name]} + {' + '.join(terms)};"
                )
        return moved

    # -- values ------------------------------------------------------------------------------------

    def _vector_ops(self, stage: Stage, pointers: dict[str, str], axis: int) -> None:
        """Print what a stage computes for one register of elements."""
        ops = still_needed(stage, self.kept)
        self.said = self._statements(stage, ops)
        for op in ops:
            if op.name in self.kept:
                self.out.add(f"const F {op.name} = load<F>({self.kept[op.name]} + j{self.n});")
            elif op.fn == "load":
                self._loaded(op, pointers, axis)
            else:
                for due, text in self.said.of(op):
                    kind = "auto" if due.fn in scalar.MASKS else "F"
                    self.out.add(f"const {kind} {due.name} = {text};")

    def _statements(self, stage: Stage, ops: Sequence[Op], outside: Iterable[Stage] = ()) -> Statements:
        uses = uses_in([stage.model_copy(update={"ops": tuple(ops)})], outside)
        return Statements(self._on_vectors, ON_VECTORS, uses)

    def _loaded(self, op: Op, pointers: dict[str, str], axis: int) -> None:
        operand = self.inputs[str(op.args[0])]
        kind = "auto" if operand.dtype == "bool" else "F"
        text = self._load(operand, pointers[operand.name], operand.strides[axis])
        self.out.add(f"const {kind} {op.name} = {text};")

    def _on_vectors(self, fn: str, args: tuple[str | float, ...]) -> str:
        return scalar.on_vectors(fn, tuple(self._broadcast(fn, argument) for argument in args))

    def _broadcast(self, fn: str, argument: str | float) -> str | float:
        """A value of the row stands beside vectors as it is in infix operations, spread out elsewhere."""
        if argument in self.row_values and fn not in scalar.INFIX and fn not in scalar.COMPARE:
            return f"F{{}} + {argument}"
        return argument

    def _value(self, name: str) -> str:
        """A value as a register: its name, or its expression."""
        return f"F{{}} + {name}" if name in self.row_values else self.said.text(name)

    def _load(self, operand: Operand, pointer: str, step: int) -> str:
        kind = "load_mask" if operand.dtype == "bool" else "load"
        if step == 0:
            value = as_float(operand, f"{pointer}[0]")
            return f"(F{{}} < 0.0f) | -int({value})" if operand.dtype == "bool" else f"F{{}} + {value}"
        if step == 1:
            return f"{kind}<F>({pointer} + j{self.n})"
        return f"{kind}_strided<F>({pointer} + j * {step}L, {step}L{self.n})"

    def _store(self, operand: Operand, pointer: str, value: str, step: int) -> str:
        if step != 1:
            return f"store_strided({pointer} + j * {step}L, {step}L, {value}{self.n});"
        stream = self.schedule.nontemporal and operand.dtype == "float32"
        return f"{'stream' if stream else 'store'}({pointer} + j, {value}{self.n});"


class MapNest(Nest):
    """Prints a region without reduce axes."""

    def body(self) -> str:
        """Text between the braces of the function."""
        self.begin()
        axes, stage = self.region.axes, self.region.stages[0]
        inner, last = axes[-1].size, len(axes) - 1
        rows = math.prod(axis.size for axis in axes[:-1])
        self.fill(inner)
        if rows == 1:
            self._line(stage, last, inner)
            return self.out.text()
        self.parallel(rows, self._elements())
        self.out.open(f"for (long row = 0; row < {rows}; ++row)")
        moved = self._row_pointers(range(last), "row")
        self._walk(stage, moved, last, Stretch("0", str(inner), (inner,)))
        self.out.close()
        return self.out.text()

    def _line(self, stage: Stage, axis: int, length: int) -> None:
        """The whole space as one stretch, several registers of which may be in flight."""
        out, lanes = self.out, self.lanes
        whole = length // lanes
        unroll = self.schedule.unroll if whole >= 8 * self.schedule.unroll else 1
        turns = whole // unroll
        if not self.n and unroll == 1:
            self.parallel(whole, length)
            out.open(f"for (long j = 0; j < {length}; j += {lanes})")
            self._computed(stage, self._whole(), axis)
            out.close()
            return
        out.open(f"auto step = [&](long j{self.takes_n})")
        self._computed(stage, self._whole(), axis)
        out.close(";")
        if turns:
            self.parallel(turns, length)
            calls = [f"step(j{f' + {lanes * k}' if k else ''});" for k in range(unroll)]
            step = lanes * unroll
            out.add(f"for (long j = 0; j < {turns * step}; j += {step}) {_braced(calls)}")
        out.add(*(f"step({place * lanes});" for place in range(turns * unroll, whole)))
        if length % lanes:
            out.add(f"step({whole * lanes}, {length % lanes});")


TYPES = {
    "float32": "float", "float16": "_Float16", "bfloat16": "bf16", "float64": "double",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
"""Storage type -> C++ type."""


def _braced(calls: list[str]) -> str:
    return calls[0] if len(calls) == 1 else f"{{ {' '.join(calls)} }}"


def touched(stage: Stage) -> set[str]:
    """Operands that a stage reads or writes."""
    reads = {str(op.args[0]) for op in stage.ops if op.fn == "load"}
    return reads | {store.operand for store in stage.stores}


def as_float(operand: Operand, text: str) -> str:
    """A single element as a float, or as a bool where it is stored as one."""
    return text if operand.dtype in {"float32", "bool"} else f"float({text})"
