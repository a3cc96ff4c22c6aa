"""Cumulative sum and product: a tile is scanned at a time and what came before is carried along the row.

Rows of a few programs are shared: a first launch folds each part, a second one starts from what the parts before gave.
The carry is a double, so it adds nothing to the rounding of the scan within a tile.
"""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel
from kernelskill.program.statements import ON_TILES, Statements, uses_in
from kernelskill.program.triton.addresses import Chain, up_to_power_of_two
from kernelskill.program.triton.around import Around
from kernelskill.program.triton.expressions import expression
from kernelskill.program.triton.frame import Frame
from kernelskill.program.triton.names import finished
from kernelskill.program.triton.plan import scan_plan
from kernelskill.program.triton.text import GpuFunction, Launch, pointer, walked


def scan_function(kernel: Kernel) -> GpuFunction:
    """The launches of a scan.

    Raises:
        ProgramError: its parameters are not those of a scan.
    """
    return _Scan(kernel).function()


class _Scan:
    def __init__(self, kernel: Kernel) -> None:
        self.name = kernel.name
        self.around = Around.of(kernel)
        self.before, self.after, self.value = self.around.before, self.around.after, self.around.value
        parameters = self.around.parameters
        self.is_sum = parameters["fold"] == "sum"
        self.reverse = bool(parameters["reverse"])
        self.exclusive = bool(parameters["exclusive"])
        self.start = "0.0" if self.is_sum else "1.0"
        self.schedule = kernel.schedule.gpu
        self.plan = scan_plan(self.before, int(parameters["length"]), self.schedule)
        if self.exclusive and self.reverse:
            raise ProgramError("a reversed exclusive scan is not printed")

    def function(self) -> GpuFunction:
        if self.plan.parts == 1:
            return self.around.function((self._launch(first=False),))
        count = self.before.rows * self.plan.parts
        launches = (self._launch(first=True), self._launch(first=False))
        return self.around.function(launches, {f"{self.value}_parts": (count, "float64")})

    def _launch(self, first: bool) -> Launch:
        reads, writes = Frame(self.before, self.plan), Frame(self.after, self.plan, "_out")
        writes.out = reads.out
        if len(reads.reduce) != 1 or len(writes.reduce) != 1:
            raise ProgramError("a scan walks one axis")
        reads.wide_rows = reads.wide_rows or writes.wide_rows
        shared = self.plan.parts > 1
        indices = reads.begin(shared)
        for name in ("row", "column"):
            if getattr(reads, name).is_like(getattr(writes, name)):
                setattr(writes, name, getattr(reads, name))
        self._walk(reads, writes, first)
        for chain in dict.fromkeys((reads.row, reads.column, writes.row, writes.column)):
            chain.define(indices)
        used = {**reads.used, **({} if first else writes.used)}
        pointers = self.around.pointers(used, f"{self.value}_parts")
        programs = reads.programs * self.plan.parts
        name = f"_{self.name}_parts" if first else f"_{self.name}"
        return Launch(name, reads.out, pointers, programs, self.plan.warps)

    # -- the walk ----------------------------------------------------------------------------------

    def _walk(self, reads: Frame, writes: Frame, first: bool) -> None:
        plan, out = self.plan, reads.out
        if first:
            out.add(f"carry = tl.full({reads.tile}, {self.start}, tl.float32)")
        elif plan.parts > 1:
            self._come_before(reads)
        elif not plan.is_whole:
            shape = reads.row_tile or "[]"
            out.add(f"carry = tl.full({shape}, {self.start}, tl.float64)")
        if self.exclusive and not first:
            self._neutral(reads, writes)
        if plan.is_whole:
            self._tile(reads, writes, reads.lanes(plan.block) + reads.wide_k, first)
            return
        out.add(f"lane = {reads.lanes(plan.block)}{reads.wide_k}")
        bounds = ("0", str(plan.length))
        if plan.parts > 1:
            bounds = (f"part * {plan.stretch}", f"part * {plan.stretch} + {plan.stretch}")
        out.open(walked(*bounds, plan.block, self.schedule.num_stages))
        whole = plan.parts * plan.stretch if plan.parts > 1 else -(-plan.length // plan.block) * plan.block
        self._tile(
            reads, writes, f"{whole - plan.block} - start + lane" if self.reverse else "start + lane", first
        )
        out.close()
        if first:
            function = "tl.sum(carry" if self.is_sum else "tl.reduce(carry"
            combine = f", axis={reads.axis}" if self.is_sum else f", {reads.axis}, _times"
            out.add(f"carry = {function}.to(tl.float64){combine}{reads.keep})")
            mask = ", mask=row_in" if reads.row_masked else ""
            out.add(f"tl.store({pointer(f'{self.value}_parts')} + {reads.partial('part')}, carry{mask})")
            reads.used.setdefault(f"{self.value}_parts")

    def _come_before(self, frame: Frame) -> None:
        """The carry that a part starts from."""
        count, name = up_to_power_of_two(self.plan.parts), f"{self.value}_parts"
        frame.used.setdefault(name)
        frame.out.add(f"parts = {frame.lanes(count)}")
        mask = "row_in & (parts < part)" if frame.row_masked else "parts < part"
        frame.out.add(
            f"carry = tl.load({pointer(name)} + {frame.partial('parts')}, mask={mask}, other={self.start})"
        )
        kind = f"tl.sum(carry, axis={frame.axis}" if self.is_sum else f"tl.reduce(carry, {frame.axis}, _times"
        frame.out.add(f"carry = {kind}{frame.keep})")

    def _neutral(self, reads: Frame, writes: Frame) -> None:
        """Store the first result of an exclusive scan."""
        out = reads.out
        out.add(f"{self.value}_first = tl.full({reads.row_tile or '[]'}, {self.start}, tl.float32)")
        once = "part == 0" if self.plan.parts > 1 else ""
        self._finish(writes, None, f"{self.value}_first", once)

    def _tile(self, reads: Frame, writes: Frame, index: str, first: bool) -> None:
        out, name, plan = reads.out, self.value, self.plan
        k, parts = reads.elements(out, index)
        stage = self.before.stages[-1]
        value = stage.stores[0].value
        reads.of_rows = reads.of_elements = Statements(expression, ON_TILES, uses_in([stage]))
        is_loaded = any(op.fn == "load" and op.name == value for op in stage.ops)
        if is_loaded and reads.k_masked and reads.is_whole_tile(value):
            reads.neutral = {value: self.start}
        for op in stage.ops:
            reads.op(out, op, k)
        text = reads.whole_tile(value)
        if reads.k_masked and not reads.neutral:
            text = f"tl.where(k_in, {text}, {self.start})"
        given = text if text.isidentifier() else f"{name}_in"
        if given != text:
            out.add(f"{given} = {text}")
        symbol = "+" if self.is_sum else "*"
        if first:
            out.add(f"carry {symbol}= {given}")
            k.define(parts)
            return
        function = "tl.cumsum" if self.is_sum else "tl.cumprod"
        order = ", reverse=True" if self.reverse else ""
        out.add(f"{name} = {function}({given}, axis={reads.axis}{order})")
        if not plan.is_whole:
            out.add(f"{name} {symbol}= carry.to(tl.float32)")
            last = f"tl.sum({given}, axis={reads.axis}{reads.keep})"
            if not self.is_sum:
                last = f"tl.reduce({given}, {reads.axis}, _times{reads.keep})"
            out.add(f"carry {symbol}= {last}.to(tl.float64)")
        place = writes.chain("k", writes.reduce)
        if self.exclusive:
            out.add("place = k + 1")
            place = writes.chain("place", writes.reduce)
        slot = out.slot()
        self._finish(writes, place, name, "")
        k.define(parts)
        place.define(slot)

    def _finish(self, writes: Frame, place: Chain | None, value: str, once: str) -> None:
        """The epilogue of scanned values, or (without a place) of the neutral element before them."""
        stage = finished(self.after, self.value, value, "" if place else "_first")
        writes.of_rows = writes.of_elements = Statements(expression, ON_TILES, uses_in([stage]))
        for op in stage.ops:
            writes.op(writes.out, op, place)
        writes.store(writes.out, stage.stores[0], place, once)
