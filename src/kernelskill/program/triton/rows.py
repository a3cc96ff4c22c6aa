"""Regions that fold rows, as launches: whole rows in registers, long rows in a loop, rows shared by programs.

A shared row takes one launch per walk. Each program of a launch first folds the partial results of the walks before,
which it finds in cache, so no launch does nothing but combine; sums stay in one order and so give the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kernelskill.program.program import Kernel
from kernelskill.program.region import Op, Reduction, Region, Stage
from kernelskill.program.statements import ON_TILES, Statements
from kernelskill.program.triton import moments
from kernelskill.program.triton.addresses import Chain, up_to_power_of_two
from kernelskill.program.triton.expressions import expression, number
from kernelskill.program.triton.folds import EXTREMES, IDENTITY, fold, join, registers, settle
from kernelskill.program.triton.frame import Frame
from kernelskill.program.triton.names import on_tiles
from kernelskill.program.triton.plan import RowPlan, row_plan
from kernelskill.program.triton.softmax import joined
from kernelskill.program.triton.text import GpuFunction, Launch, Text, pointer, walked
from kernelskill.program.triton.totals import total_launch


def row_function(kernel: Kernel, region: Region) -> GpuFunction:
    """All launches of a kernel whose region has reduce axes."""
    return _Rows(kernel, joined(on_tiles(region))).function()


def pending(region: Region, plan: RowPlan, stage: Stage) -> list[Reduction]:
    """Folds of a stage that take a walk of their own: squares around a mean come along with the mean."""
    known = {} if plan.is_whole else moments.pairs(region)
    return [
        item for item in stage.reductions if item.name not in known or known[item.name].sum.name == item.name
    ]


class _Rows:
    def __init__(self, kernel: Kernel, region: Region) -> None:
        self.kernel = kernel
        self.region = region
        self.schedule = kernel.schedule.gpu
        self.plan = row_plan(region, self.schedule)
        self.workspaces: dict[str, tuple[int, str]] = {}

    def function(self) -> GpuFunction:
        region = self.region
        launches = []
        if self.plan.parts > 1:
            launches = [
                self._launch("_".join(item.name for item in folds), upto=index)
                for index, stage in enumerate(region.stages)
                if (folds := pending(region, self.plan, stage))
            ]
        launches.append(self._launch(""))
        if region.total_stage:
            launches.append(total_launch(self.kernel, region, self.workspaces))
        return GpuFunction(
            launches=tuple(launches),
            inputs=tuple(item.name for item in region.inputs),
            outputs=tuple(item.name for item in region.outputs),
            workspaces=self.workspaces,
        )

    def _launch(self, suffix: str, upto: int | None = None) -> Launch:
        """One launch: up to the partial results of stage `upto`, or all that is left."""
        writer = _Writer(self.region, self.kernel, self.workspaces, upto)
        writer.print()
        name = f"_{self.kernel.name}{f'_{suffix}' if suffix else ''}"
        frame = writer.frame
        programs = frame.programs * (self.plan.parts if writer.shared else 1)
        order = [*(item.name for item in (*self.region.inputs, *self.region.outputs)), *self.workspaces]
        pointers = tuple(item for item in order if item in frame.used)
        return Launch(name, frame.out, pointers, programs, self.plan.warps)


class _Writer:
    """Prints one launch."""

    def __init__(
        self, region: Region, kernel: Kernel, workspaces: dict[str, tuple[int, str]], upto: int | None
    ) -> None:
        self.region = region
        self.plan = row_plan(region, kernel.schedule.gpu)
        self.frame = Frame(region, self.plan)
        self.workspaces = workspaces
        self.upto = upto
        is_last_map = upto is None and any(stage.kind == "map" for stage in region.stages)
        self.shared = self.plan.parts > 1 and (upto is not None or is_last_map)
        self.pairs = {} if self.plan.is_whole else moments.pairs(region)
        self.stages = kernel.schedule.gpu.num_stages
        self.live = self._live()
        self.frame.of_rows = self.frame.of_elements = Statements(expression, ON_TILES, self._uses())
        self.known: set[str] = set()
        self.k: Chain | None = None

    def print(self) -> None:
        frame, out = self.frame, self.frame.out
        indices = frame.begin(self.shared)
        if self.plan.is_whole:
            self.k, parts = frame.elements(out, f"{frame.lanes(self.plan.block)}{frame.wide_k}")
        elif any(self._walks(stage) for stage in self._printed()):
            out.add(f"lane = {frame.lanes(self.plan.block)}{frame.wide_k}")
        for index, stage in enumerate(self.region.stages):
            last = index == self.upto
            if stage.kind == "reduce" and not pending(self.region, self.plan, stage):
                continue
            if self.plan.parts > 1 and stage.kind == "reduce" and not last:
                self._combine(stage)
            elif stage.kind == "reduce":
                self._reduce(stage, last)
            elif stage.kind == "scalar":
                self._scalar(stage)
            else:
                self._map(stage)
            if last:
                break
        if self.upto is None and self.region.total:
            self._totals()
        frame.row.define(indices)
        frame.column.define(indices)
        if self.plan.is_whole and self.k:
            self.k.define(parts)

    # -- what is printed ---------------------------------------------------------------------------

    def _printed(self) -> tuple[Stage, ...]:
        """Stages of this launch."""
        return self.region.stages if self.upto is None else self.region.stages[: self.upto + 1]

    def _walks(self, stage: Stage) -> bool:
        """Whether this launch walks the row for a stage."""
        if stage.kind == "reduce":
            own = bool(pending(self.region, self.plan, stage))
            return own and (self.plan.parts == 1 or (stage is self._printed()[-1] and self.upto is not None))
        return stage.kind == "map"

    def _roots(self, stage: Stage) -> set[str]:
        """Names that a stage of this launch needs computed."""
        if stage.kind == "reduce":
            folds = pending(self.region, self.plan, stage) if self._walks(stage) else []
            return {item.value for item in folds}
        stored = self.upto is None
        return {store.value for store in stage.stores} if stored else set()

    def _live(self) -> set[str]:
        """Names of operations that lead to something that this launch stores."""
        totals = {item.value for item in self.region.total} if self.upto is None else set()
        live = totals.union(*(self._roots(stage) for stage in self._printed()))
        for stage in reversed(self._printed()):
            for op in reversed(stage.ops):
                if op.name in live and op.fn != "load":
                    live |= {arg for arg in op.args if isinstance(arg, str)}
        return live

    def _is_live(self, item: Reduction) -> bool:
        """Whether a fold, or one that comes along with it, leads to something that this launch stores."""
        pair = self.pairs.get(item.name)
        return any(
            {kept.name, kept.top} & self.live for kept in ((pair.sum, pair.squares) if pair else (item,))
        )

    def _uses(self) -> Counter[str]:
        """How often names are used: by operations and by what is stored or folded.

        What many statements name counts twice, and so does what one walk needs of another or of what is not a walk.
        """
        counts: Counter[str] = Counter()
        seen: set[str] = set()
        varying, frame = self.frame.varying, self.frame
        for stage in self._printed():
            for op in stage.ops:
                if op.name not in self.live or op.name in seen or op.fn == "load":
                    continue
                if self.plan.is_whole or op.name not in varying:
                    seen.add(op.name)
                for arg in op.args:
                    if isinstance(arg, str):
                        counts[arg] += 1 if (arg in varying) == (op.name in varying) else 2
            folds = pending(self.region, self.plan, stage) if self._walks(stage) else []
            for item in folds:
                often = item.fold in {"softmax", *EXTREMES} or not frame.is_whole_tile(item.value)
                counts[item.value] += 2 if often else 1
            if stage.kind != "reduce" and self.upto is None:
                for store in stage.stores:
                    counts[store.value] += 1 if (store.value in varying) == (stage.kind == "map") else 2
        counts.update({item.value: 2 for item in self.region.total})
        return counts

    def _neutral(self, stages: Sequence[Stage]) -> dict[str, str]:
        """Loads that stages fold as they are -> what they give beyond the end of a row."""
        loads = {op.name for stage in stages for op in stage.ops if op.fn == "load"}
        wanted: dict[str, set[str]] = {}
        for stage in stages:
            for item in pending(self.region, self.plan, stage) if self._walks(stage) else ():
                if (
                    item.value in loads
                    and self.frame.is_whole_tile(item.value)
                    and item.name not in self.pairs
                ):
                    wanted.setdefault(item.value, set()).add(number(IDENTITY[item.fold]))
        return {
            name: found.pop() for name, found in wanted.items() if len(found) == 1 and self.frame.k_masked
        }

    # -- stages ------------------------------------------------------------------------------------

    def _ops(self, out: Text, ops: tuple[Op, ...], along: bool) -> None:
        """Operations not yet done, of one kind: those that differ along the row, or those that don't."""
        for op in ops:
            if (
                (op.name in self.frame.varying) == along
                and op.name not in self.known
                and op.name in self.live
            ):
                self.frame.op(out, op, self.k if along else None)
                if not along or self.plan.is_whole:
                    self.known.add(op.name)

    def _loop(self) -> tuple[Chain, Text]:
        frame, plan = self.frame, self.plan
        bounds = ("0", str(plan.length))
        if self.shared:
            bounds = (f"part * {plan.stretch}", f"part * {plan.stretch} + {plan.stretch}")
        frame.out.open(walked(*bounds, plan.block, self.stages))
        k, parts = frame.elements(frame.out, "start + lane")
        k.step = plan.block
        return k, parts

    def _reduce(self, stage: Stage, last: bool) -> None:
        frame, out = self.frame, self.frame.out
        frame.neutral = self._neutral(self.region.stages if self.plan.is_whole else (stage,))
        self._ops(out, stage.ops, along=False)
        if self.plan.is_whole:
            self._ops(out, stage.ops, along=True)
            for item in stage.reductions:
                power = self._power(item) if item.fold == "softmax" else ""
                out.add(*fold(item, self._masked(item), self._places(item), frame.axis, frame.keep, power))
            return
        folds = pending(self.region, self.plan, stage)
        first = f"part * {self.plan.stretch}" if self.shared else "0"
        for item in folds:
            if item.name in self.pairs:
                out.add(*moments.start(frame, self.pairs[item.name]))
                continue
            for name, (dtype, begin) in registers(item).items():
                text = f"tl.full({frame.tile}, {begin}, {dtype})"
                if dtype == "tl.int32":
                    text = f"tl.zeros({frame.tile}, tl.int32) + lane" + (f" + {first}" if self.shared else "")
                out.add(f"{name} = {text}")
        self.k, parts = self._loop()
        self._ops(out, stage.ops, along=True)
        for item in folds:
            if item.name in self.pairs:
                out.add(*moments.join(frame, self.pairs[item.name], first))
            else:
                out.add(*join(item, self._masked(item), self._places(item)))
        self.k.define(parts)
        self.k = None
        out.close()
        for item in folds:
            pair = self.pairs.get(item.name)
            out.add(*(moments.settle(frame, pair) if pair else settle(item, frame.axis, frame.keep)))
            if last:
                for kept in (pair.sum, pair.squares) if pair else (item,):
                    self._keep(kept)

    def _power(self, item: Reduction) -> str:
        """The name under which later stages want the exponentials of a softmax, which they then need not compute."""
        ops = [op for stage in self.region.stages for op in stage.ops]
        below = [op.name for op in ops if op.fn == "sub" and op.args == (item.value, item.top)]
        powers = [op.name for op in ops if op.fn == "exp" and op.args[0] in below]
        if not powers or len(set(powers)) > 1:
            return ""
        users = [op for op in ops if any(name in op.args for name in below) and op.name != powers[0]]
        self.known.add(powers[0])
        if not users:
            self.known.update(below)
        return powers[0]

    def _masked(self, item: Reduction) -> str:
        """The value to be folded: neutral beyond the end of the row, and spread over the tile."""
        value = self.frame.whole_tile(item.value)
        if self.frame.k_masked and item.value not in self.frame.neutral:
            return f"tl.where(k_in, {value}, {number(IDENTITY[item.fold])})"
        return value

    def _places(self, item: Reduction) -> str:
        if item.fold not in EXTREMES:
            return ""
        place = "k.to(tl.int32)" if self.frame.wide_k else "k"
        return place if self.plan.shape == "line" else f"(tl.zeros({self.frame.tile}, tl.int32) + {place})"

    def _scalar(self, stage: Stage) -> None:
        self._ops(self.frame.out, stage.ops, along=False)
        if self.upto is not None:
            return
        once = "part == 0" if self.shared else ""
        for store in stage.stores:
            self.frame.store(self.frame.out, store, None, once)

    def _map(self, stage: Stage) -> None:
        out = self.frame.out
        self._ops(out, stage.ops, along=False)
        parts = None
        if not self.plan.is_whole:
            self.frame.neutral = {}
            self.k, parts = self._loop()
        self._ops(out, stage.ops, along=True)
        for store in stage.stores:
            self.frame.store(out, store, self.k)
        if parts and self.k:
            self.k.define(parts)
            self.k = None
            out.close()

    # -- between launches --------------------------------------------------------------------------

    def _keep(self, item: Reduction) -> None:
        """Store the partial result of this part."""
        for name, (dtype, _) in registers(item).items():
            space = f"{name}_parts"
            self.workspaces[space] = (self.frame.count(), dtype.removeprefix("tl."))
            self.frame.used.setdefault(space)
            mask = ", mask=row_in" if self.frame.row_masked else ""
            self.frame.out.add(f"tl.store({pointer(space)} + {self.frame.partial('part')}, {name}{mask})")

    def _combine(self, stage: Stage) -> None:
        """Fold the partial results of all parts of a row, where this launch needs them."""
        frame, out = self.frame, self.frame.out
        wanted = [item for item in pending(self.region, self.plan, stage) if self._is_live(item)]
        if not wanted:
            return
        count = up_to_power_of_two(self.plan.parts)
        if "parts" not in self.known:
            self.known.add("parts")
            out.add(f"parts = {frame.lanes(count)}")
        masks = [
            *(["row_in"] if frame.row_masked else []),
            *([f"parts < {self.plan.parts}"] if count != self.plan.parts else []),
        ]
        given = (
            " & ".join(f"({item})" if " " in item else item for item in masks)
            if masks[1:]
            else "".join(masks)
        )
        mask = f", mask={given}" if masks else ""
        for item in wanted:
            pair = self.pairs.get(item.name)
            for kept in (pair.sum, pair.squares) if pair else (item,):
                for name, (_, start) in registers(kept).items():
                    frame.used.setdefault(f"{name}_parts")
                    neutral = f", other={start}" if mask else ""
                    out.add(
                        f"{name} = tl.load({pointer(f'{name}_parts')} + {frame.partial('parts')}{mask}{neutral})"
                    )
            out.add(*(moments.combine(frame, pair) if pair else settle(item, frame.axis, frame.keep)))

    def _totals(self) -> None:
        """Store what this program adds to each total."""
        frame, out = self.frame, self.frame.out
        for item in self.region.total:
            space = f"{item.name}_rows"
            self.workspaces[space] = (frame.programs, "float32")
            frame.used.setdefault(space)
            value = frame.text(item.value)
            if self.plan.shape != "line":
                value = f"tl.zeros({frame.row_tile}, tl.float32) + {value}"
                value = f"tl.where(row_in, {value}, 0.0)" if frame.row_masked else value
                value = f"tl.sum({value})"
            once = ", mask=part == 0" if self.shared else ""
            program = f"tl.program_id(0) // {self.plan.parts}" if self.shared else "tl.program_id(0)"
            out.add(f"tl.store({pointer(space)} + {program}, {value}{once})")
