"""Cumulative sum and product: a tile is scanned at a time and what came before is carried along the row.

Rows of a few programs are shared: a first launch folds each part, a second one starts from what the parts before gave.
The carry is a double, so it adds nothing to the rounding of the scan within a tile.
"""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Kernel, Template
from kernelskill.program.region import Op, Region
from kernelskill.program.triton.addresses import Chain, up_to_power_of_two
from kernelskill.program.triton.frame import Frame
from kernelskill.program.triton.plan import scan_plan
from kernelskill.program.triton.text import GpuFunction, Launch, respelled, spelled_name


def scan_function(kernel: Kernel, template: Template) -> GpuFunction:
    """The launches of a scan.

    Raises:
        ProgramError: its parameters are not those of a scan.
    """
    if template.prologue is None or template.epilogue is None:
        raise ProgramError(f"kernel {kernel.name}: a scan reads by its prologue and stores by its epilogue")
    return _Scan(kernel, template, respelled(template.prologue), respelled(template.epilogue)).function()


class _Scan:
    def __init__(self, kernel: Kernel, template: Template, before: Region, after: Region) -> None:
        self.name = kernel.name
        self.before = before
        self.after = after
        self.value = spelled_name(str(template.parameters["value"]))
        self.is_sum = template.parameters["fold"] == "sum"
        self.reverse = bool(template.parameters["reverse"])
        self.exclusive = bool(template.parameters["exclusive"])
        self.start = "0.0" if self.is_sum else "1.0"
        self.schedule = kernel.schedule.gpu
        self.plan = scan_plan(before, int(template.parameters["length"]), self.schedule)
        if self.exclusive and self.reverse:
            raise ProgramError("a reversed exclusive scan is not printed")

    def function(self) -> GpuFunction:
        launches = [*([self._launch(first=True)] if self.plan.parts > 1 else []), self._launch(first=False)]
        count = self.before.rows * self.plan.parts
        reads = [item.name for item in (*self.before.inputs, *self.after.inputs) if item.name != self.value]
        return GpuFunction(
            launches=tuple(launches),
            inputs=tuple(reads),
            outputs=tuple(item.name for item in self.after.outputs),
            workspaces={f"{self.value}_parts": (count, "float64")} if self.plan.parts > 1 else {},
        )

    def _launch(self, first: bool) -> Launch:
        reads, writes = Frame(self.before, self.plan), Frame(self.after, self.plan, "_out")
        writes.out = reads.out
        if len(reads.reduce) != 1 or len(writes.reduce) != 1:
            raise ProgramError("a scan walks one axis")
        reads.wide_rows = reads.wide_rows or writes.wide_rows
        shared = self.plan.parts > 1
        indices = reads.begin(shared)
        self._walk(reads, writes, first)
        for frame in (reads, writes):
            frame.row.define(indices)
            frame.column.define(indices)
        used = {**reads.used, **({} if first else writes.used)}
        order = [item.name for item in (*self.before.inputs, *self.after.inputs, *self.after.outputs)]
        pointers = tuple(name for name in dict.fromkeys([*order, f"{self.value}_parts"]) if name in used)
        programs = reads.programs * self.plan.parts
        name = f"_{self.name}_parts" if first else f"_{self.name}"
        return Launch(name, reads.out, pointers, programs, self.plan.warps, self.schedule.num_stages)

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
        bounds = f"0, {plan.length}"
        if plan.parts > 1:
            bounds = f"part * {plan.stretch}, part * {plan.stretch} + {plan.stretch}"
        out.open(f"for start in range({bounds}, {plan.block}):")
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
            out.add(f"tl.store({self.value}_parts + {reads.partial('part')}, carry{mask})")
            reads.used.setdefault(f"{self.value}_parts")

    def _come_before(self, frame: Frame) -> None:
        """The carry that a part starts from."""
        count, name = up_to_power_of_two(self.plan.parts), f"{self.value}_parts"
        frame.used.setdefault(name)
        frame.out.add(f"parts = {frame.lanes(count)}")
        mask = "row_in & (parts < part)" if frame.row_masked else "parts < part"
        frame.out.add(f"carry = tl.load({name} + {frame.partial('parts')}, mask={mask}, other={self.start})")
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
        for op in stage.ops:
            reads.op(out, op, k)
        value = stage.stores[0].value
        if plan.shape != "line" or value not in reads.varying:
            value = f"tl.zeros({reads.tile}, tl.float32) + {value}"
        out.add(f"{name}_in = {f'tl.where(k_in, {value}, {self.start})' if reads.k_masked else value}")
        symbol = "+" if self.is_sum else "*"
        if first:
            out.add(f"carry {symbol}= {name}_in")
            k.define(parts)
            return
        function = "tl.cumsum" if self.is_sum else "tl.cumprod"
        given = ", reverse=True" if self.reverse else ""
        out.add(f"{name} = {function}({name}_in, axis={reads.axis}{given})")
        if not plan.is_whole:
            out.add(f"{name} = {name} {symbol} carry.to(tl.float32)")
            last = f"tl.sum({name}_in, axis={reads.axis}{reads.keep})"
            if not self.is_sum:
                last = f"tl.reduce({name}_in, {reads.axis}, _times{reads.keep})"
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
        """The epilogue of scanned values."""
        stage, suffix = self.after.stages[-1], "" if place else "_first"
        names: dict[str, str] = {}
        for op in stage.ops:
            if op.fn == "load" and op.args[0] == self.value:
                names[op.name] = value
                continue
            given = tuple(names.get(item, item) if isinstance(item, str) else item for item in op.args)
            names[op.name] = f"{op.name}{suffix}"
            writes.op(
                writes.out,
                Op(name=names[op.name], fn=op.fn, args=op.args if op.fn == "load" else given),
                place,
            )
        store = stage.stores[0]
        done = store.model_copy(update={"value": names.get(store.value, store.value)})
        writes.store(writes.out, done, place, once)
