"""A recurrence as data, and the kernel that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelskill.errors import ProgramError
from kernelskill.program.identifiers import identifier
from kernelskill.program.program import Kernel, Template
from kernelskill.program.region import Axis, Op, Operand, Region, Stage, Store
from kernelskill.program.templates.recurrence import LOCALS
from kernelskill.records import TensorSpec

MOST_HIDDEN = 2048
"""Units whose states of a few rows fit a thread's stack and first-level cache."""
SKILL = "persistent-recurrence"


@dataclass(frozen=True)
class Leaf:
    """A register of units that a step starts from."""

    of: Literal["product", "given", "state", "cell"]
    operand: int = 0
    """Which of the given tensors."""
    chunk: int = 0
    """Which `hidden` columns of it."""


@dataclass(frozen=True)
class Given:
    """What the inputs make of each step: columns of a tensor (time, row, column), column stride 1."""

    name: str
    time: int
    row: int


@dataclass(frozen=True)
class Cell:
    """One step for one unit."""

    gates: int
    leaves: dict[str, Leaf]
    """Names that `ops` start from."""
    ops: tuple[Op, ...]
    state: str
    """The op that is the new state."""
    cell: str = ""
    """The op that is the new cell; "" where there is none."""


@dataclass(frozen=True)
class Stored:
    """A result."""

    what: Literal["sequence", "state", "cell"]
    spec: TensorSpec
    time: int
    row: int


@dataclass(frozen=True)
class Recurrence:
    """All steps."""

    cell: Cell
    steps: int
    batch: int
    hidden: int
    given: tuple[Given, ...]
    starts: tuple[int, ...]
    """Row strides of the first state, and of the first cell."""
    stored: tuple[Stored, ...]
    bias: bool
    reverse: bool = False

    def kernel(self, name: str, computes: str) -> Kernel:
        """The kernel; its operands are the given tensors, first state, first cell, weights and bias.

        Raises:
            ProgramError: the kernel is not made for such sizes.
        """
        if not 0 < self.hidden <= MOST_HIDDEN or not self.batch or not self.steps:
            raise ProgramError(f"a recurrence of {self.hidden} units is not printed")
        taken = set(LOCALS)
        names = [identifier(item.name, taken) for item in self.given]
        renamed = {op.name: identifier(op.name, taken) for op in self.cell.ops}
        loads = {name: identifier(name, taken) for name in self.cell.leaves}
        ops = [Op(name=loads[name], fn="load", args=(name,)) for name in self.cell.leaves]
        known = {**renamed, **loads}
        ops += [
            op.model_copy(
                update={
                    "name": renamed[op.name],
                    "args": tuple(known.get(arg, arg) if isinstance(arg, str) else arg for arg in op.args),
                }
            )
            for op in self.cell.ops
        ]
        return Kernel(
            name=name,
            body=Template(
                name="recurrence",
                parameters={
                    "steps": self.steps, "batch": self.batch, "hidden": self.hidden, "gates": self.cell.gates,
                    "reverse": self.reverse, "bias": self.bias, "starts": list(self.starts),
                    "given": [
                        {"name": given, "time": item.time, "row": item.row}
                        for given, item in zip(names, self.given, strict=True)
                    ],
                    "leaves": {
                        leaf: {"of": names[item.operand] if item.of == "given" else item.of, "chunk": item.chunk}
                        for leaf, item in self.cell.leaves.items()
                    },
                    "stored": [
                        {"what": item.what, "time": item.time, "row": item.row} for item in self.stored
                    ],
                },
                epilogue=self._update(tuple(ops), known),
            ),
            outputs=tuple(item.spec for item in self.stored),
            computes=computes,
            skills=(SKILL,),
        )  # fmt: skip

    def _update(self, ops: tuple[Op, ...], known: dict[str, str]) -> Region:
        """The step of one unit as a map over rows and units."""
        strides = (self.hidden, 1)
        results = {"new_state": self.cell.state} | ({"new_cell": self.cell.cell} if self.cell.cell else {})
        return Region(
            axes=(Axis(size=self.batch, role="parallel"), Axis(size=self.hidden, role="parallel")),
            inputs=tuple(Operand(name=name, dtype="float32", strides=strides) for name in self.cell.leaves),
            outputs=tuple(Operand(name=name, dtype="float32", strides=strides) for name in results),
            stages=(
                Stage(
                    kind="map",
                    ops=ops,
                    stores=tuple(Store(operand=name, value=known[op]) for name, op in results.items()),
                ),
            ),
        )


def sequence(steps: int, batch: int, hidden: int) -> Stored:
    """States of all steps, (time, row, unit)."""
    spec = TensorSpec.contiguous((steps, batch, hidden))
    return Stored("sequence", spec, time=batch * hidden, row=hidden)


def last(what: Literal["state", "cell"], shape: tuple[int, ...]) -> Stored:
    """The last state or cell, (row, unit), perhaps behind axes of size one."""
    return Stored(what, TensorSpec.contiguous(shape), time=0, row=shape[-1])


def _ops(*lines: tuple[str, str, tuple[str | float, ...]]) -> tuple[Op, ...]:
    return tuple(Op(name=name, fn=fn, args=args) for name, fn, args in lines)


def _gates(count: int) -> dict[str, Leaf]:
    """Products and inputs of each gate: p0, x0, p1, x1, ..."""
    products = {f"p{chunk}": Leaf("product", chunk=chunk) for chunk in range(count)}
    return products | {f"x{chunk}": Leaf("given", chunk=chunk) for chunk in range(count)}


GRU = Cell(
    gates=3,
    leaves=_gates(3) | {"h": Leaf("state")},
    ops=_ops(
        ("reset_sum", "add", ("x0", "p0")), ("reset", "sigmoid", ("reset_sum",)),
        ("update_sum", "add", ("x1", "p1")), ("update", "sigmoid", ("update_sum",)),
        ("reset_part", "mul", ("reset", "p2")), ("new_sum", "add", ("x2", "reset_part")),
        ("new", "tanh", ("new_sum",)), ("change", "sub", ("h", "new")), ("kept", "mul", ("change", "update")),
        ("h_after", "add", ("kept", "new")),
    ),
    state="h_after",
)  # fmt: skip
"""As torch.nn.GRU: gates in the order reset, update, new."""
LSTM = Cell(
    gates=4,
    leaves=_gates(4) | {"c": Leaf("cell")},
    ops=_ops(
        ("in_sum", "add", ("x0", "p0")), ("in_gate", "sigmoid", ("in_sum",)),
        ("forget_sum", "add", ("x1", "p1")), ("forget", "sigmoid", ("forget_sum",)),
        ("new_sum", "add", ("x2", "p2")), ("new", "tanh", ("new_sum",)),
        ("out_sum", "add", ("x3", "p3")), ("out_gate", "sigmoid", ("out_sum",)),
        ("kept", "mul", ("forget", "c")), ("added", "mul", ("in_gate", "new")), ("c_after", "add", ("kept", "added")),
        ("squashed", "tanh", ("c_after",)), ("h_after", "mul", ("out_gate", "squashed")),
    ),
    state="h_after", cell="c_after",
)  # fmt: skip
"""As torch.nn.LSTM: gates in the order input, forget, new, output."""
_SUMMED = ("sum_of_both", "add", ("x0", "p0"))
RNN_TANH = Cell(
    gates=1, leaves=_gates(1), ops=_ops(_SUMMED, ("h_after", "tanh", ("sum_of_both",))), state="h_after"
)
RNN_RELU = Cell(
    gates=1, leaves=_gates(1), ops=_ops(_SUMMED, ("h_after", "max", ("sum_of_both", 0.0))), state="h_after"
)
