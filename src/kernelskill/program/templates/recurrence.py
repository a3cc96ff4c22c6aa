"""All steps of a recurrence in one call: what a step makes of the state before it stays in cache and registers.

State and weights meet in a product in each step; what becomes of its columns (the gates) is the epilogue, a map of one
hidden unit. The weights are packed once a call, so that the gates of a register of units lie side by side for each term
of the product: one load per gate and term serves several rows of the batch, and the cell is updated while its gates
are still in registers. Rows of the batch are independent, so each thread takes its rows through all steps and nobody
waits between steps. Terms are added in the order of the state, in float32.

Parameters of the template:
    steps, batch, hidden: sizes.
    gates: columns of the product over hidden.
    reverse: whether the last step of the inputs comes first.
    bias: whether the product has a bias, which is the last operand.
    given: operands that hold what inputs make of each step: name, and the strides of `time` and `row` in elements.
    leaves: the epilogue's inputs by name: `of` ("product", "state", "cell" or a given operand), and its `chunk` of
        hidden columns.
    starts: strides of the rows of the first state, and of the first cell where there is one.
    stored: results in order: `what` ("sequence", "state" or "cell"), `time` and `row` strides.
"""

from __future__ import annotations

from typing import NamedTuple

from kernelskill.errors import ProgramError
from kernelskill.program import scalar
from kernelskill.program.lines import Lines
from kernelskill.program.program import Kernel
from kernelskill.program.region import Op, Region
from kernelskill.program.statements import ON_VECTORS, Statements, uses_in
from kernelskill.program.template import CppFunction
from kernelskill.records import Json

_LOCALS = """F R U first full gates group h lane memory next_state now after packed put rest room row rows s sum t
    take term tile unit units units_of w walk weight bias count state cell states last_state last_cell new_state column
    g u to"""
LOCALS = frozenset(_LOCALS.split())
"""Names that the printed function uses for itself."""
SUMS = {128: 12, 256: 12, 512: 24}
"""Vector bits -> accumulators that leave registers for weights: 16 registers, or 32 of the widest."""
MOST_ROWS = 8
FEW, MANY = 2, 16
"""Groups of rows that a batch is cut into at least: for few threads, whose rows share each load of a weight, and for
more threads than those groups would be."""
LEAST_WORK = 1 << 20
"""Multiply-adds of a call from which on a second thread pays: opening a parallel region takes 10 us, and
waking a thread that sleeps several times that."""
SHARED_PACKING = 1 << 16
"""Weights from which on threads pack them together: below, that takes less time than waiting for each other."""
GATE_WORK = 16
"""Multiply-adds that evaluating a gate of one unit takes as long as."""
CACHE_LINE = 64


class Leaf(NamedTuple):
    """Where an input of the epilogue comes from."""

    of: str
    chunk: int


def function(kernel: Kernel) -> CppFunction:
    """Print the kernel.

    Raises:
        ProgramError: its parameters are not those of a recurrence, or its schedule asks for what it cannot do.
    """
    return _Printer(kernel).function()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        template, self.schedule = kernel.body, kernel.schedule
        if isinstance(template, Region) or template.epilogue is None:
            raise ProgramError(f"kernel {kernel.name}: a recurrence updates its state in its epilogue")
        if self.schedule.nontemporal or self.schedule.unroll > 1:
            raise ProgramError(
                f"kernel {kernel.name}: steps of a recurrence are neither unrolled nor streamed"
            )
        given = template.parameters
        self.steps, self.batch, self.hidden = (int(given[name]) for name in ("steps", "batch", "hidden"))
        self.gates = int(given["gates"])
        self.reverse, self.bias = bool(given["reverse"]), bool(given["bias"])
        self.given: list[dict[str, Json]] = list(given["given"])
        self.leaves = {
            name: Leaf(str(leaf["of"]), int(leaf["chunk"])) for name, leaf in given["leaves"].items()
        }
        self.starts: list[int] = list(given["starts"])
        self.stored: list[dict[str, Json]] = list(given["stored"])
        self.stage = template.epilogue.stages[0]
        self.results = [operand.name for operand in template.epilogue.outputs]
        self.lanes = self.schedule.lanes
        self.tiles = -(-self.hidden // self.lanes)
        self.padded = self.tiles * self.lanes
        self.rest = self.hidden % self.lanes
        self.sums = SUMS[self.schedule.vector_bits]
        self.out = Lines()

    def rows(self, groups: int) -> int:
        """Rows of the batch that a thread takes through a step together, so that there are as many groups."""
        fair = -(-self.batch // groups)
        return max(1, min(MOST_ROWS, self.sums // self.gates, fair))

    @property
    def has_cell(self) -> bool:
        """Whether a second state is handed from step to step."""
        return len(self.starts) > 1

    def function(self) -> CppFunction:
        out, panel = self.out, self.hidden * self.gates * self.lanes
        out.add(
            f"using F = floats{self.lanes};",
            f"// Weights of {self.lanes} units at a time, for each term gate by gate: one load serves all rows.",
            f"std::vector<float> room({self.tiles * panel} + {CACHE_LINE // 4});",
            f"float* packed = room.data() + ({CACHE_LINE} - reinterpret_cast<uintptr_t>(room.data()) % {CACHE_LINE})"
            f" % {CACHE_LINE} / 4;",
        )
        self._partial_registers()
        self._walk(panel)
        most = self._threads()
        pragma = "#pragma omp for schedule(static) nowait" if most > 1 else ""
        is_packed_alone = most == 1 or self.tiles * panel < SHARED_PACKING
        if is_packed_alone:
            self._pack(panel, "")
        if most > 1:
            out.add(
                f"const int shared = std::min(threads, {most});", "#pragma omp parallel num_threads(shared)"
            )
            out.open("")
        if not is_packed_alone:
            self._pack(panel, "#pragma omp for schedule(static)")
        wide, narrow = self.rows(FEW), self.rows(MANY)
        groups = -(-self.batch // wide)
        if most > groups:
            out.open(f"if (shared <= {groups})")
            self._groups(wide, pragma)
            out.close()
            out.open("else")
            self._groups(narrow, pragma)
            out.close()
        else:
            self._groups(wide, pragma)
        if most > 1:
            out.close()
        names = [str(item["name"]) for item in self.given]
        reads = [
            *names,
            "state",
            *(["cell"] if self.has_cell else []),
            "weight",
            *(["bias"] if self.bias else []),
        ]
        return CppFunction(
            body=out.text(),
            inputs=tuple((name, "float32") for name in reads),
            outputs=tuple((self._result(item), "float32") for item in self.stored),
        )

    def _result(self, item: dict[str, Json]) -> str:
        return {"sequence": "states", "state": "last_state", "cell": "last_cell"}[str(item["what"])]

    # -- threads -----------------------------------------------------------------------------------

    def _threads(self) -> int:
        """How many threads share the rows at most."""
        units = self.steps * self.batch * self.hidden
        groups = -(-self.batch // self.rows(MANY))
        if units * self.gates * (self.hidden + GATE_WORK) < LEAST_WORK:
            return 1
        return min(groups, self.schedule.threads or groups)

    def _pack(self, panel: int, pragma: str) -> None:
        out, lanes = self.out, self.lanes
        out.add(*([pragma] if pragma else []))
        out.open(f"for (long tile = 0; tile < {self.tiles}; ++tile)")
        count = f"std::min({lanes}L, {self.hidden} - tile * {lanes})" if self.rest else str(lanes)
        out.add(f"const long count = {count};" if self.rest else f"constexpr long count = {count};")
        out.open(f"for (long g = 0; g < {self.gates}; ++g)")
        out.add(f"const float* from = weight + (g * {self.hidden} + tile * {lanes}) * {self.hidden}L;")
        out.add(f"float* to = packed + tile * {panel}L + g * {lanes};")
        out.open(f"for (long term = 0; term < {self.hidden}; ++term, to += {self.gates * lanes})")
        out.add(f"for (long lane = 0; lane < count; ++lane) to[lane] = from[lane * {self.hidden} + term];")
        for _ in range(3):
            out.close()

    def _groups(self, rows: int, pragma: str) -> None:
        out = self.out
        whole, rest = divmod(self.batch, rows)
        out.add(*([pragma] if pragma else []))
        if whole + bool(rest) == 1:
            out.add(f"walk(std::integral_constant<int, {rows if whole else rest}>{{}}, 0);")
            return
        out.open(f"for (long group = 0; group < {whole + bool(rest)}; ++group)")
        if rest:
            out.add(f"if (group < {whole}) walk(std::integral_constant<int, {rows}>{{}}, group * {rows});")
            out.add(f"else walk(std::integral_constant<int, {rest}>{{}}, group * {rows});")
        else:
            out.add(f"walk(std::integral_constant<int, {rows}>{{}}, group * {rows});")
        out.close()

    # -- one group of rows -------------------------------------------------------------------------

    def _partial_registers(self) -> None:
        """Loads and stores of units of which the last register may hold less than its lanes."""
        if not self.rest:
            return
        self.out.add(
            f"auto take = [](const float* p, bool full) -> F {{ return full ? load<F>(p) : load<F>(p, {self.rest}); }};"
        )
        if any(item["what"] == "sequence" for item in self.stored):
            self.out.add(
                f"auto put = [](float* p, F x, bool full) {{ full ? store(p, x) : store(p, x, {self.rest}); }};"
            )

    def _walk(self, panel: int) -> None:
        """A lambda: some rows of the batch through all steps."""
        out, padded = self.out, self.padded
        out.open("auto walk = [&](auto rows, long first)")
        out.add(
            "constexpr int R = decltype(rows)::value;",
            f"alignas({CACHE_LINE}) float now[R][{padded}]{{}}, after[R][{padded}]{{}};",
            f"float (*h)[{padded}] = now, (*next_state)[{padded}] = after;",
        )
        copied = f"std::memcpy(h[r], state + (first + r) * {self.starts[0]}L, {4 * self.hidden});"
        if self.has_cell:
            out.add(f"alignas({CACHE_LINE}) float memory[R][{padded}]{{}};")
            copied += f" std::memcpy(memory[r], cell + (first + r) * {self.starts[1]}L, {4 * self.hidden});"
        out.add(f"for (int r = 0; r < R; ++r) {{ {copied} }}")
        out.open(f"for (long s = 0; s < {self.steps}; ++s)")
        out.add(f"const long t = {self.steps - 1} - s;" if self.reverse else "const long t = s;")
        self._units(panel)
        out.add(
            f"constexpr int U = std::max(1, {self.sums} / (R * {self.gates}));",
            "long tile = 0;",
            f"for (; tile + U <= {self.tiles}; tile += U) units_of(std::integral_constant<int, U>{{}}, tile);",
            f"if constexpr ({self.tiles} % U != 0)",
            f"  for (; tile < {self.tiles}; ++tile) units_of(std::integral_constant<int, 1>{{}}, tile);",
            "std::swap(h, next_state);",
        )
        out.close()
        for item in self.stored:
            if item["what"] != "sequence":
                kept = "memory" if item["what"] == "cell" else "h"
                place = f"{self._result(item)} + (first + r) * {item['row']}L"
                out.add(f"for (int r = 0; r < R; ++r) std::memcpy({place}, {kept}[r], {4 * self.hidden});")
        out.close(";")

    def _units(self, panel: int) -> None:
        """A lambda: one step of a few registers of units, for all rows of the group."""
        out, gates, lanes = self.out, self.gates, self.lanes
        out.open("auto units_of = [&](auto units, long tile)")
        out.add(
            "constexpr int U = decltype(units)::value;",
            f"F sum[U][R][{gates}]{{}};",
            f"const float* w = packed + tile * {panel}L;",
        )
        out.open(f"for (long term = 0; term < {self.hidden}; ++term, w += {gates * lanes})")
        out.add("#pragma GCC unroll 16")
        out.open("for (int u = 0; u < U; ++u)")
        out.add("#pragma GCC unroll 8")
        out.open(f"for (int g = 0; g < {gates}; ++g)")
        out.add(f"const F column = load<F>(w + u * {panel}L + g * {lanes});")
        out.add("#pragma GCC unroll 8")
        out.add("for (int r = 0; r < R; ++r) sum[u][r][g] += h[r][term] * column;")
        for _ in range(3):
            out.close()
        out.add("#pragma GCC unroll 16")
        out.open("for (int u = 0; u < U; ++u)")
        out.add("#pragma GCC unroll 8")
        out.open("for (int r = 0; r < R; ++r)")
        out.add(f"const long unit = (tile + u) * {lanes}, row = first + r;")
        if self.rest:
            out.add(f"const bool full = unit + {lanes} <= {self.hidden};")
        self._update()
        out.close()
        out.close()
        out.close(";")

    def _update(self) -> None:
        """The new state of a register of units of one row."""
        said = Statements(scalar.on_vectors, ON_VECTORS, uses_in([self.stage]))
        for op in self.stage.ops:
            if op.fn == "load":
                self.out.add(f"const F {op.name} = {self._loaded(op)};")
                continue
            for due, text in said.of(op):
                kind = "auto" if due.fn in scalar.MASKS else "F"
                self.out.add(f"const {kind} {due.name} = {text};")
        values = {store.operand: said.text(store.value) for store in self.stage.stores}
        new = values[self.results[0]]
        if not new.isidentifier():
            self.out.add(f"const F new_state = {new};")
            new = "new_state"
        self.out.add(f"store(next_state[r] + unit, {new});")
        if self.has_cell:
            self.out.add(f"store(memory[r] + unit, {values[self.results[1]]});")
        for item in self.stored:
            if item["what"] == "sequence":
                place = f"{self._result(item)} + t * {item['time']}L + row * {item['row']}L + unit"
                self.out.add(f"put({place}, {new}, full);" if self.rest else f"store({place}, {new});")

    def _loaded(self, op: Op) -> str:
        of, chunk = self.leaves[str(op.args[0])]
        if of == "product":
            bias = self._taken(f"bias + {chunk * self.hidden} + unit" if chunk else "bias + unit")
            return f"sum[u][r][{chunk}] + {bias}" if self.bias else f"sum[u][r][{chunk}]"
        if of in {"state", "cell"}:
            return f"load<F>({'h' if of == 'state' else 'memory'}[r] + unit)"
        item = next(item for item in self.given if item["name"] == of)
        moves = [f"{name} * {step}L" for name, step in (("t", item["time"]), ("row", item["row"])) if step]
        start = [str(chunk * self.hidden)] if chunk else []
        return self._taken(" + ".join([of, *moves, *start, "unit"]))

    def _taken(self, pointer: str) -> str:
        return f"take({pointer}, full)" if self.rest else f"load<F>({pointer})"
