"""Captured graph + measured ceilings -> the time below which no program can go.

The floor is a bound, so every doubt is settled downwards: the graph is simplified and its dead nodes are dropped first;
intermediate values cost nothing; arithmetic and traffic overlap perfectly; and one kernel call is all the overhead.
Products and convolutions count as little as linearity allows (`linear.py`): sums pulled through them, chains regrouped.
It holds for the algorithms that the graph names (direct convolution, plain matrix products): what computes a single
product with fewer multiplications, as Winograd's and Strassen's do, may pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

from kernelskill.errors import ProgramError
from kernelskill.floor.ceilings import load_ceilings, load_gpu_ceilings
from kernelskill.floor.linear import regrouped
from kernelskill.floor.ops import Call, Work, is_transcendental, work
from kernelskill.floor.traffic import Demand, Traffic, layouts, nbytes, node_traffic, used_values
from kernelskill.program.rewrite import remove_dead, simplify
from kernelskill.records import Baselines, Ceilings, Floor, Graph, Node, Ref, TensorSpec, Workload
from kernelskill.records.operators import family

AT_THE_FLOOR = 0.95
"""Share of the floor's speed from which on nothing is worth trying."""
_REDUCED = frozenset({"float16", "bfloat16", "int8"})
_REDUCED_SPEEDUP = 16.0
"""Matrix units multiply reduced types at up to 16 times the float32 rate (AMX: 1024 against 64 operations a cycle)."""


class MachineFloor:
    """Floors on this machine; its ceilings are measured at the first use and kept in `cache_dir`.

    Args:
        cache_dir: where measurements are kept.
        threads: threads that a program may use.
        gpu: name of the GPU to write for; "" = this processor.
        index: of that GPU, as torch counts them.
        alone: has the GPU with this index to oneself, as measuring must.
    """

    def __init__(
        self,
        cache_dir: Path,
        threads: int,
        gpu: str = "",
        index: int = 0,
        alone: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._cache_dir = cache_dir
        self._threads = threads
        self._gpu = gpu
        self._index = index
        self._alone = alone
        self._ceilings: Ceilings | None = None

    def ceilings(self) -> Ceilings:
        """What the machine can do at best.

        Raises:
            WorkerError: there is no C++ compiler (for a processor), or the measuring program failed.
        """
        if self._ceilings is None:
            self._ceilings = (
                load_gpu_ceilings(self._cache_dir, self._gpu, self._index, self._alone)
                if self._gpu
                else load_ceilings(self._cache_dir, self._threads)
            )
        return self._ceilings

    def floor(self, workload: Workload) -> Floor:
        """The time below which no program for this workload can go.

        Raises:
            WorkerError: the ceilings could not be measured.
        """
        return floor_of(workload, self.ceilings())


def floor_of(workload: Workload, ceilings: Ceilings) -> Floor:
    """The floor of a workload under given ceilings; without a graph only its results count."""
    overhead_ms = ceilings.call_us / 1e3
    if workload.graph is None:
        return _floor(
            Traffic(0, sum(map(nbytes, workload.outputs))), Work(), Work(), ceilings, overhead_ms, 0, {}
        )
    graph = minimal(workload.graph)
    demand, specs = Demand(graph), layouts(graph)
    works = {
        name: done.times(demand.share(demand.nodes[name])) for name, done in node_works(graph, specs).items()
    }
    used = used_values(graph)
    per_node = {}
    for node in graph.nodes:
        moved = node_traffic(node, specs, used)
        if moved.total:
            scaled = _at_float32_rate(node, works[node.name], specs, ceilings)
            alone = max(ceilings.traffic_us(moved.read, moved.written) / 1e3, _compute_ms(scaled, ceilings))
            per_node[node.name] = alone
    least = regrouped(demand, works)
    total = _sum(least.values())
    scaled = _sum(_at_float32_rate(node, least[node.name], specs, ceilings) for node in graph.nodes)
    return _floor(
        demand.traffic(workload.state),
        total,
        scaled,
        ceilings,
        overhead_ms,
        launches(workload.graph),
        per_node,
    )


def minimal(graph: Graph) -> Graph:
    """The graph without dead nodes and without arithmetic that algebra removes."""
    try:
        return remove_dead(simplify(remove_dead(graph))[0])
    except ProgramError:  # a rewrite that doesn't end must not cost us the floor
        return remove_dead(graph)


def node_works(graph: Graph, specs: dict[Ref, TensorSpec]) -> dict[str, Work]:
    """Arithmetic of each node. A transcendental of a transcendental (log of 1 + exp) counts as one evaluation."""
    origins = _origins(graph, specs)
    works = {}
    for node in graph.nodes:
        done = work(Call(node, tuple(specs[ref] for ref in node.refs() if ref in specs)))
        if done.transcendentals and is_transcendental(node) and _composed(node, origins):
            done = Work(done.flops, 0.0)
        works[node.name] = done
    return works


def launches(graph: Graph) -> int:
    """Operators of a graph that do work when they are dispatched."""
    return sum(family(node.op) not in {"view", "check"} for node in graph.nodes)


def nothing_to_gain(floor: Floor, baselines: Baselines) -> bool:
    """Whether best stock is within 5 % of the floor already."""
    return floor.floor_ms >= AT_THE_FLOOR * baselines.best_ms


def estimate_text(floor: Floor, baselines: Baselines | None = None) -> str:
    """The floor in one sentence, with the most that can be gained on best stock."""
    parts = {
        "memory": f"{floor.bytes_min / 1e6:.3g} MB must move, which takes {floor.memory_ms:.3g} ms",
        "compute": f"{floor.flops / 1e9:.3g} GFLOP and {floor.transcendentals / 1e6:.3g} million transcendentals take "
        f"{floor.compute_ms:.3g} ms",
        "overhead": f"calling one kernel takes {floor.overhead_ms:.3g} ms",
    }
    text = f"No program can be faster than {floor.floor_ms:.3g} ms here: {parts[floor.bound]}"
    if baselines is None:
        return f"{text}."
    gain = baselines.best_ms / floor.floor_ms
    if nothing_to_gain(floor, baselines):
        return f"{text}. Best stock ({baselines.best_arm}) is there already: nothing to gain."
    return f"{text}. Best stock ({baselines.best_arm}) takes {baselines.best_ms:.3g} ms: at most {gain:.3g}x to gain."


def _floor(
    traffic: Traffic,
    total: Work,
    scaled: Work,
    ceilings: Ceilings,
    overhead_ms: float,
    count: int,
    per_node: dict[str, float],
) -> Floor:
    memory_ms = ceilings.traffic_us(*traffic) / 1e3
    compute_ms = _compute_ms(scaled, ceilings)
    costs: dict[Literal["memory", "compute", "overhead"], float] = {
        "memory": memory_ms,
        "compute": compute_ms,
        "overhead": overhead_ms,
    }
    return Floor(
        bytes_min=traffic.total,
        flops=total.flops,
        transcendentals=total.transcendentals,
        launches=count,
        memory_ms=memory_ms,
        compute_ms=compute_ms,
        overhead_ms=overhead_ms,
        floor_ms=max(memory_ms, compute_ms) + overhead_ms,
        bound=max(costs, key=lambda name: costs[name]),
        per_node=per_node,
    )


def _compute_ms(scaled: Work, ceilings: Ceilings) -> float:
    """Multiply-adds and exponentials may overlap, so the longer of the two counts."""
    return max(scaled.flops / ceilings.fp32_gflops, scaled.transcendentals / ceilings.exp_gops) / 1e6


def _at_float32_rate(node: Node, done: Work, specs: dict[Ref, TensorSpec], ceilings: Ceilings) -> Work:
    """Work in units that take as long as float32 operations."""
    if ceilings.tf32_gflops and family(node.op) in {"conv", "recurrent"}:
        done = Work(done.flops * min(1.0, ceilings.fp32_gflops / ceilings.tf32_gflops), done.transcendentals)
    reduced = any(specs[ref].dtype in _REDUCED for ref in node.refs() if ref in specs)
    if reduced and family(node.op) in {"matmul", "conv", "attention", "recurrent"}:
        return Work(done.flops / _REDUCED_SPEEDUP, done.transcendentals / 2)
    return Work(done.flops / 2, done.transcendentals / 2) if reduced else done


def _sum(works: Iterable[Work]) -> Work:
    flops = transcendentals = 0.0
    for item in works:
        flops, transcendentals = flops + item.flops, transcendentals + item.transcendentals
    return Work(flops, transcendentals)


class _Univariate(NamedTuple):
    """What an elementwise value is made of."""

    roots: frozenset[Ref]
    evaluates: bool
    """Whether a transcendental was evaluated on the way."""


def _origins(graph: Graph, specs: dict[Ref, TensorSpec]) -> dict[Ref, _Univariate]:
    """For each elementwise value: the values that it is computed from element by element."""
    found: dict[Ref, _Univariate] = {}
    for node in graph.nodes:
        if family(node.op) != "elementwise":
            continue
        parts = [
            found.get(ref, _Univariate(frozenset({ref}), False))
            for ref in node.refs()
            if specs[ref].numel > 1
        ]
        roots = frozenset().union(*(part.roots for part in parts))
        evaluates = is_transcendental(node) or any(part.evaluates for part in parts)
        found[Ref(node=node.name)] = _Univariate(roots, evaluates)
    return found


def _composed(node: Node, origins: dict[Ref, _Univariate]) -> bool:
    """Whether the argument is itself a function of one value that evaluates a transcendental."""
    whole = origins[Ref(node=node.name)]
    arguments = (origins.get(ref) for ref in node.refs())
    return len(whole.roots) == 1 and any(part.evaluates for part in arguments if part)
