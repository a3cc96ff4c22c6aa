"""Regions that fold long rows, in CUDA C++: a cluster of blocks holds each row on chip.

Memory is read once and written once, however many walks a row needs: at first each thread has its elements copied to
its block's shared memory, all of them under way at once, and takes them from there in every walk. The first walk begins
when a quarter has come. A thread reads only what it asked for itself, so only folds wait: each ends in one value per
block, which the other blocks read from its shared memory in a fixed order. A softmax folds its maximum and its sum in
one walk, and takes each exponential again where it writes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelskill.errors import ProgramError
from kernelskill.program.cuda import on_chip
from kernelskill.program.cuda.clusters import CAPABILITY, ClusterPlan, cluster_plan
from kernelskill.program.cuda.expressions import TYPES, expression
from kernelskill.program.cuda.reuse import needed, reused, wanted
from kernelskill.program.lines import Lines
from kernelskill.program.program import Kernel
from kernelskill.program.region import Op, Operand, Reduction, Stage
from kernelskill.program.scalar import MASKS
from kernelskill.program.triton.softmax import joined
from kernelskill.program.triton.text import respelled

LARGEST_INT32 = 2**31 - 1
PIECES = 4
"""Parts in which a block's share of a row is fetched; `on_chip` counts as many."""


class ClusterRows:
    """Prints one kernel.

    Raises:
        ProgramError: no cluster can hold its rows, or something in it is not printed.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.name = f"_{kernel.name}"
        if kernel.region is None:
            raise ProgramError(f"kernel {kernel.name} is no loop nest, so it has no rows")
        self.region = joined(respelled(kernel.region))
        self.plan: ClusterPlan = cluster_plan(
            kernel.model_copy(update={"body": self.region}), kernel.schedule.gpu.cluster
        )
        self.is_even = self.plan.parts * self.plan.stretch == self.region.row_length
        """Whether all blocks hold equally much."""
        self.operands = {item.name: item for item in (*self.region.inputs, *self.region.outputs)}
        self.reduce = [i for i, axis in enumerate(self.region.axes) if axis.role == "reduce"]
        self.varying = self._varying()
        self.out = Lines()
        self.differences = {
            op.name: op.args for stage in self.region.stages for op in stage.ops if op.fn == "sub"
        }
        self.known: set[str] = set()
        """Values of the row that are computed already."""
        self.below: set[tuple[str | float, ...]] = set()
        """(value, maximum): what is subtracted from what, so that the difference is at most zero."""
        self.slots = 0
        self.walk = -1
        """Number of the walk that is printed."""
        self.reuse = reused(self.region, [self.operands[name] for name in self.plan.kept])
        self._print()

    @property
    def blocks(self) -> int:
        """Size of the grid."""
        return self.region.rows * self.plan.parts

    def text(self) -> str:
        """CUDA C++ of the function in two forms: for aligned addresses, and element by element."""
        pointers = [f"const {self._type(item)}* __restrict__ {item.name}" for item in self.region.inputs]
        pointers += [f"{self._type(item)}* __restrict__ {item.name}" for item in self.region.outputs]
        parameters, names = ", ".join(pointers), ", ".join(self.operands)
        body = [f"template <int Lanes> __device__ inline void row_of({parameters}) {{", self.out.text(), "}"]
        bounds = ", ".join(map(str, (self.plan.threads, self.plan.beside)))
        forms = {self.name: self.plan.lanes, f"{self.name}_unaligned": 1}
        for name, lanes in forms.items():
            body.append(
                f'\nextern "C" __global__ void __launch_bounds__({bounds}) {name}(\n'
                f"    {parameters}) {{\n  row_of<{lanes}>({names});\n}}"
            )
        return "\n".join([on_chip.TEXT, *body]) + "\n"

    def _print(self) -> None:
        plan, region, out = self.plan, self.region, self.out
        out.add("extern __shared__ __align__(16) unsigned char tile[];")
        out.add(f"const int part = on_chip::own_part(), start = part * {plan.stretch};")
        last = "" if self.is_even else f"part == {plan.parts - 1} ? {region.row_length} - start : "
        out.add(f"const int run = {last}{plan.stretch};")
        out.add(f"constexpr int stride = {plan.threads} * Lanes;")
        out.add(f"constexpr int turns = ({plan.stretch} + stride - 1) / stride;")
        out.add(f"constexpr int quarter = (turns + {PIECES - 1}) / {PIECES};")
        if region.rows > 1:
            out.add(f"const long long row = blockIdx.x / {plan.parts};")
        for name, offset in zip(plan.kept, plan.offsets, strict=True):
            kind = self._type(self.operands[name])
            out.add(f"{kind}* {name}_kept = reinterpret_cast<{kind}*>(tile + {offset});")
        parallel = [i for i, axis in enumerate(region.axes) if axis.role == "parallel"]
        for operand in self.operands.values():
            place = [
                *self._terms(operand, parallel, "row"),
                *([str(operand.offset)] if operand.offset else []),
            ]
            if place:
                out.add(f"{operand.name} += {' + '.join(place)};")
        self._fetch()
        folds = [stage for stage in region.stages if stage.kind == "reduce"]
        for stage in region.stages:
            self._row_ops(stage)
            if stage.kind == "reduce":
                self._reduce(stage)
                if stage is folds[-1]:
                    out.add("on_chip::arrive_at_cluster();  // needs no other block from here on")
            elif stage.kind == "map":
                self._map(stage)
            elif stage.stores:
                out.open("if (part == 0 && threadIdx.x == 0)")
                out.add(*(f"on_chip::write({item.operand}[0], {item.value});" for item in stage.stores))
                out.close()
        if folds:
            out.add("on_chip::wait_for_cluster();  // others may still read this block's folds")

    def _fetch(self) -> None:
        """Have all that is kept copied to shared memory."""
        self._open_pieces()
        self.out.add(
            *(f"on_chip::fetch<Lanes>({item}_kept + step, {item} + start + step);" for item in self.plan.kept)
        )
        self.out.close()
        self.out.add("on_chip::end_piece();")
        self.out.close()

    def _open_pieces(self, *first: str) -> None:
        """Open the loops over the pieces that are fetched, and over what a thread has of each."""
        self.out.add("#pragma unroll")
        self.out.open(f"for (int piece = 0; piece < {PIECES}; ++piece)")
        self.out.add(*first)
        self._open_turns("piece * quarter", "min(turns, (piece + 1) * quarter)")

    def _open_turns(self, first: str, end: str) -> None:
        """Open the loop over a thread's accesses: in each turn the block takes one after the other."""
        self.out.add("#pragma unroll 4")
        self.out.open(f"for (int turn = {first}; turn < {end}; ++turn)")
        self.out.add("const int step = turn * stride + threadIdx.x * Lanes;")
        if not self.is_even or self.plan.stretch % (self.plan.threads * self.plan.lanes):
            self.out.add("if (step >= run) break;")

    # -- stages ------------------------------------------------------------------------------------

    def _reduce(self, stage: Stage) -> None:
        kinds = {item.name: f"on_chip::{on_chip.FOLDS[item.fold]}" for item in stage.reductions}
        self.out.add(*(f"auto {_folded(item)} = {kinds[item.name]}::start();" for item in stage.reductions))
        packs = [item for item in stage.reductions if item.fold == "softmax"]
        self._open_walk(stage, [f"float {item.name}_values[Lanes];" for item in packs])
        for item in stage.reductions:
            if item in packs:
                self.out.add(f"{item.name}_values[lane] = {item.value};")
            else:
                self.out.add(f"{item.name} = {kinds[item.name]}::of({item.name}, {item.value});")
        self._close_walk(
            [
                f"{_folded(item)} = on_chip::Softmax::of({_folded(item)}, {item.name}_values);"
                for item in packs
            ]
        )
        for item in stage.reductions:
            name, slots = _folded(item), f"slots_{self.slots}"
            self.slots += 1
            self.out.add(f"__shared__ {'on_chip::Peak' if item in packs else 'float'} {slots}[33];")
            self.out.add(
                f"{name} = on_chip::across_cluster<{kinds[item.name]}, {self.plan.parts}>({name}, {slots});"
            )
            if item in packs:
                self.out.add(f"const float {item.top} = {name}.top, {item.name} = {name}.sum;")
                self.below.add((item.value, item.top))

    def _map(self, stage: Stage) -> None:
        packed = [item for item in stage.stores if item.operand in self.plan.packed]
        first = [
            f"on_chip::Pack<{self._type(self.operands[item.operand])}, Lanes> {item.operand}_pack;"
            for item in packed
        ]
        self._open_walk(stage, first)
        for item in stage.stores:
            target = f"{item.operand}_pack.at[lane]"
            if item not in packed:
                target = f"{item.operand}[{self._place(self.operands[item.operand], '(k + lane)')}]"
            self.out.add(f"on_chip::write({target}, {item.value});")
        last = [f"on_chip::store<Lanes>({item.operand} + k, {item.operand}_pack);" for item in packed]
        self._close_walk(last)

    def _open_walk(self, stage: Stage, first: Sequence[str] = ()) -> None:
        """Open the loops over this block's part of the row and its lanes, and print what they compute."""
        out = self.out
        self.walk += 1
        ops = needed(stage.ops, wanted(stage), self._given())
        loads = [op for op in ops if op.fn == "load" and op.name in self.varying]
        if self.walk:
            self._open_turns("0", "turns")
        else:
            self._open_pieces("on_chip::wait_for_piece(piece);")
        if stage.stores or any(str(op.args[0]) not in self.plan.kept for op in loads):
            out.add("const int k = start + step;")
        given = [self.reuse.operand for op in ops if self.reuse and op.name in self._given()]
        for name in dict.fromkeys([*(str(op.args[0]) for op in loads), *given]):
            self._pack(name)
        out.add(*first)
        if self.reuse and self.walk == self.reuse.walk:
            out.add(f"on_chip::Pack<float, Lanes> {self.reuse.operand}_next;")
        out.add("#pragma unroll")
        out.open("for (int lane = 0; lane < Lanes; ++lane)")
        for op in ops:
            if op.name in self.varying:
                self._op(op)

    def _close_walk(self, last: Sequence[str] = ()) -> None:
        reuse = self.reuse if self.reuse and self.walk == self.reuse.walk else None
        if reuse:
            self.out.add(f"{reuse.operand}_next.at[lane] = {reuse.name};")
        self.out.close()
        self.out.add(*last)
        if reuse:
            self.out.add(f"on_chip::store<Lanes>({reuse.operand}_kept + step, {reuse.operand}_next);")
        self.out.close()
        if not self.walk:
            self.out.close()

    def _given(self) -> frozenset[str]:
        """Values that lie on chip in this walk."""
        return self.reuse.later if self.reuse and self.walk > self.reuse.walk else frozenset()

    def _pack(self, name: str) -> None:
        """Read one access of an operand, from shared memory if it lies there."""
        if name in self.plan.packed:
            place = f"{name}_kept + step" if name in self.plan.kept else f"{name} + k"
            self.out.add(f"const auto {name}_pack = on_chip::load<Lanes>({place});")

    # -- values ------------------------------------------------------------------------------------

    def _row_ops(self, stage: Stage) -> None:
        """Values that are the same all along the row, once per thread."""
        for op in stage.ops:
            if op.name not in self.varying and op.name not in self.known:
                self.known.add(op.name)
                self._op(op)

    def _op(self, op: Op) -> None:
        if self.reuse and op.name in self._given():
            value, is_mask = f"{self.reuse.operand}_pack.at[lane]", False
        elif op.fn == "load":
            operand = self.operands[str(op.args[0])]
            value, is_mask = f"on_chip::read({self._element(operand, op)})", operand.dtype == "bool"
        elif op.fn == "index":
            last = self.region.axes[self.reduce[-1]].size
            place = "(start + step + lane)"
            value, is_mask = f"(float)({place} % {last})", False
        elif op.fn == "exp" and self.differences.get(str(op.args[0])) in self.below:
            value, is_mask = f"on_chip::exp_below_zero({op.args[0]})", False
        else:
            value, is_mask = expression(op.fn, op.args), op.fn in MASKS
        kind = "bool" if is_mask else "auto" if op.fn in {"where", "copy"} else "float"
        self.out.add(f"const {kind} {op.name} = {value};")

    def _element(self, operand: Operand, op: Op) -> str:
        if op.name not in self.varying:
            return f"{operand.name}[0]"
        if operand.name in self.plan.packed:
            return f"{operand.name}_pack.at[lane]"
        return f"{operand.name}[{self._place(operand, '(k + lane)')}]"

    def _place(self, operand: Operand, index: str) -> str:
        """Where an element of the row lies from the row's first one."""
        return " + ".join(self._terms(operand, self.reduce, index)) or "0"

    def _terms(self, operand: Operand, axes: Sequence[int], index: str) -> list[str]:
        """Summands of a place: one index parted into those of axes, as far as strides need it."""
        sizes = [self.region.axes[axis].size for axis in axes]
        far = (
            sum(abs(operand.strides[axis]) * (self.region.axes[axis].size - 1) for axis in axes)
            > LARGEST_INT32
        )
        terms: list[str] = []
        end = len(axes)
        while end:
            begin = end - 1
            step = operand.strides[axes[begin]]
            while begin and operand.strides[axes[begin - 1]] == operand.strides[axes[begin]] * sizes[begin]:
                begin -= 1
            if step and math.prod(sizes[begin:end]) > 1:
                below, size = math.prod(sizes[end:]), math.prod(sizes[begin:end])
                text = index if below == 1 else f"{index} / {below}"
                text = f"{text} % {size}" if begin else text
                terms.append(text if step == 1 else f"{text} * {step}{'ll' if far else ''}")
            end = begin
        return terms[::-1]

    def _varying(self) -> set[str]:
        """Names of values that differ along the row."""
        found: set[str] = set()
        for stage in self.region.stages:
            for op in stage.ops:
                if op.fn == "load":
                    strides = self.operands[str(op.args[0])].strides
                    if any(strides[axis] and self.region.axes[axis].size > 1 for axis in self.reduce):
                        found.add(op.name)
                elif op.fn == "index" or any(arg in found for arg in op.args):
                    found.add(op.name)
        return found

    def _type(self, operand: Operand) -> str:
        if operand.dtype not in TYPES:
            raise ProgramError(f"{self.name}: {operand.dtype} is not read or written in CUDA C++")
        return TYPES[operand.dtype]


def _folded(item: Reduction) -> str:
    """Name of what a thread folds: a softmax's maximum and sum are one value."""
    return f"{item.name}_peak" if item.fold == "softmax" else item.name


__all__ = ["CAPABILITY", "ClusterRows"]
