"""Program + profile + floor -> facts, each with its origin. Nothing here is an opinion; what is unknown is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from kernelskill.errors import ProgramError
from kernelskill.features.bounds import counted_facts, expected_bound, fill_ratio, issue_us, waves_ratio
from kernelskill.features.catalog import CATALOG, facts_of
from kernelskill.features.equal_kernels import kernel_steps, of_each_kernel
from kernelskill.features.graph_facts import graph_facts, operators_left, traffic_bytes
from kernelskill.features.index_arithmetic import index_divisions, told_divisions
from kernelskill.features.kernel_facts import (
    Load,
    launch_us,
    load_of,
    measured_facts,
    occupancy_ratio,
    program_facts,
)
from kernelskill.features.merging import merge_saving_ratio
from kernelskill.features.operator_facts import expected_shares, fusable_share, layouts, operator_facts
from kernelskill.features.shared_memory import bank_ways
from kernelskill.program import Program
from kernelskill.records import (
    Baselines,
    Candidate,
    Ceilings,
    Evaluation,
    Fact,
    Facts,
    Floor,
    Graph,
    Node,
    Profile,
    Scalar,
    StepProfile,
    Workload,
)
from kernelskill.records.operators import family, function


class ExpertFeatureReader:
    """Reads facts with the help of this machine's ceilings.

    Args:
        ceilings: of the device that is written for.
        target: its kind, "cpu" or "cuda".
    """

    def __init__(self, ceilings: Ceilings, target: str = "cpu") -> None:
        self._ceilings = ceilings
        self._target = target

    def read(
        self,
        candidate: Candidate,
        profile: Profile | None,
        floor: Floor,
        *,
        evaluation: Evaluation | None = None,
        baselines: Baselines | None = None,
    ) -> Facts:
        """Facts of one candidate. One without a program has measured facts, and what its machine code says.

        Raises:
            ProgramError: the candidate carries a program that this version cannot read.
        """
        program = _program(candidate)
        facts = list(facts_of(self._whole(floor)))
        facts += facts_of(_times(floor, evaluation, baselines))
        facts += facts_of(
            {"overhead_share_ratio": _overhead(profile), "graph_gain_ratio": _graph_gain(baselines)}
        )
        if program is None:
            facts += _unknown_kernels(candidate.source, profile)
            return Facts(facts=tuple(facts))
        facts += facts_of(
            {**graph_facts(program.graph), "kernels": len(program.kernels), "wrapper": program.wrapper}
        )
        facts += facts_of(_savable(program.graph, floor))
        if not program.wrapper:
            facts += facts_of({"dispatch_ms": self._dispatch(program.graph, len(program.kernels))})
        profile = of_each_kernel(profile, program.kernels) if profile else None
        facts += facts_of({"merge_saving_ratio": merge_saving_ratio(profile)})
        facts += self._kernels(program, profile)
        facts += _operators(program.graph, profile, floor)
        return Facts(facts=tuple(facts))

    def read_graph(self, workload: Workload, floor: Floor, *, baselines: Baselines | None = None) -> Facts:
        """Facts of the captured reference, before anything was written; without a graph, those of the floor."""
        facts = list(facts_of({**self._whole(floor), "graph_gain_ratio": _graph_gain(baselines)}))
        if workload.graph is not None:
            facts += facts_of({**graph_facts(workload.graph), "kernels": 0, "wrapper": ""})
            facts += facts_of({"dispatch_ms": self._dispatch(workload.graph, 0)})
            facts += facts_of(_savable(workload.graph, floor))
            facts += _operators(workload.graph, None, floor)
        return Facts(facts=tuple(facts))

    def _whole(self, floor: Floor) -> dict[str, Scalar]:
        cache = self._ceilings.cache_bytes
        return {
            "target": self._target,
            "threads": self._ceilings.threads,
            "compute_capability": self._ceilings.compute_capability,
            "floor_ms": floor.floor_ms,
            "floor_bound": floor.bound,
            "footprint_bytes": floor.bytes_min,
            "in_cache": None if cache is None else floor.bytes_min <= cache,
        }

    def _dispatch(self, graph: Graph, kernels: int) -> float:
        return (len(operators_left(graph)) + kernels) * self._ceilings.operator_us / 1e3

    def _kernels(self, program: Program, profile: Profile | None) -> Iterator[Fact]:
        steps = kernel_steps(profile)
        total_us = profile.total_us if profile else None
        for kernel in program.kernels:
            load = load_of(kernel, program.graph, self._target)
            yield from facts_of(program_facts(kernel, load), kernel.name)
            yield from facts_of({"index_divisions": index_divisions(kernel, self._target)}, kernel.name)
            yield from _machine_code(profile, kernel.name)
            is_map = kernel.region is not None and kernel.region.is_map
            launch = launch_us(kernel, self._ceilings)
            fill = (
                fill_ratio(kernel, _compiled_warps(profile, kernel.name)) if self._target == "cuda" else None
            )
            code = profile.static.get(kernel.name, {}) if profile else {}
            issued = issue_us(code, load, self._ceilings) if is_map else None
            expected = expected_bound(load, launch, self._ceilings, fill, issued)
            yield from facts_of({"expected_bound": expected, "fill_ratio": fill}, kernel.name)
            yield from _counted(profile, kernel.name, load, is_map=is_map)
            if kernel.name in steps:
                step = steps[kernel.name]
                measured = measured_facts(
                    step,
                    load,
                    launch,
                    self._ceilings,
                    total_us,
                    is_map=is_map,
                    waves=waves_ratio(fill, _occupancy(code)),
                    issued_us=issued,
                )
                yield from facts_of(measured, kernel.name)


def _unknown_kernels(source: str, profile: Profile | None) -> Iterator[Fact]:
    """Kernels of a source that came without a program."""
    timed = kernel_steps(profile)
    if profile is None:
        return
    for name, step in timed.items():
        yield from facts_of({"time_us": step.time_us, "share_ratio": _share(step, profile)}, name)
    yield from facts_of({"merge_saving_ratio": merge_saving_ratio(profile)})
    for name in dict.fromkeys((*timed, *profile.counters)):
        yield from _machine_code(profile, name)
        yield from _counted(profile, name)
        read = {"shared_bank_ways": bank_ways(source, name), "index_divisions": told_divisions(source, name)}
        yield from facts_of(read, name)


def _program(candidate: Candidate) -> Program | None:
    if candidate.program is None:
        return None
    try:
        return Program.model_validate(candidate.program)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProgramError(
            f"the program of candidate {candidate.id} cannot be read: {where}: {first['msg']}; "
            "was it written by another version?"
        ) from error


def _times(floor: Floor, evaluation: Evaluation | None, baselines: Baselines | None) -> dict[str, Scalar]:
    """Facts from the judge's clock; a ratio from paired rounds goes before one of medians."""
    if evaluation is None:
        return {}
    base_ms = next((item.median_ms for item in evaluation.timings if item.arm == "candidate"), None)
    if not base_ms:
        return {}
    ratio = None
    if baselines is not None:
        paired = evaluation.speedup(baselines.best_arm)
        ratio = 1 / paired.value if paired and paired.value > 0 else base_ms / baselines.best_ms
    return {"base_ms": base_ms, "floor_share_ratio": floor.floor_ms / base_ms, "best_stock_ratio": ratio}


def _graph_gain(baselines: Baselines | None) -> float | None:
    """What replaying saves the reference; None where either arm was not timed."""
    if baselines is None:
        return None
    eager, replayed = baselines.ms("eager"), baselines.ms("graph")
    return eager / replayed if eager and replayed else None


def _overhead(profile: Profile | None) -> float | None:
    """Share of a call outside of kernels and operators; None when it was not measured."""
    if profile is None or not profile.total_us or all(step.kind == "overhead" for step in profile.steps):
        return None  # where no kernel was told apart, all of it would look like overhead
    inside = sum(step.time_us for step in profile.steps if step.kind != "overhead")
    return max(0.0, 1 - inside / profile.total_us)


def _machine_code(profile: Profile | None, kernel: str) -> Iterator[Fact]:
    known = (profile.static if profile else {}).get(kernel, {})
    yield from facts_of({name: value for name, value in known.items() if name in CATALOG}, kernel)
    yield from facts_of({"occupancy_ratio": _occupancy(known)}, kernel)


def _occupancy(code: Mapping[str, Scalar]) -> float | None:
    """Share of a multiprocessor's warps that fit by what the compiler told; None where it told not all."""
    registers, shared, warps = (code.get(name) for name in ("registers", "shared_bytes", "warps"))
    if isinstance(registers, int) and isinstance(shared, int) and isinstance(warps, int):
        return occupancy_ratio(registers, shared, warps)
    return None


def _savable(graph: Graph, floor: Floor) -> dict[str, Scalar]:
    """What the operators and kernels move one by one, over what must move; and how much is no product."""
    return {
        "traffic_ratio": traffic_bytes(graph) / floor.bytes_min if floor.bytes_min else None,
        "fusable_share_ratio": fusable_share(operators_left(graph), floor),
    }


def _compiled_warps(profile: Profile | None, kernel: str) -> Scalar:
    return profile.static.get(kernel, {}).get("warps") if profile else None


def _counted(
    profile: Profile | None, kernel: str, load: Load | None = None, *, is_map: bool = False
) -> Iterator[Fact]:
    """What hardware counters say of a kernel, where they were read."""
    counted = profile.counters.get(kernel) if profile else None
    if counted:
        known = {name: value for name, value in counted.items() if name in CATALOG}
        yield from facts_of(counted_facts(known, load, is_map=is_map), kernel)


def _operators(graph: Graph, profile: Profile | None, floor: Floor) -> Iterator[Fact]:
    """Leftover operators by node, with a share of the time that was measured under their name, or is expected."""
    nodes = operators_left(graph)
    specs = layouts(graph)
    times = _node_times(nodes, profile) if profile else {}
    expected = {} if times else expected_shares(nodes, floor)
    for node in nodes:
        time_us = times.get(node.name)
        share = time_us / profile.total_us if profile and profile.total_us and time_us is not None else None
        measured = {"time_us": time_us, "share_ratio": share, "expected_share_ratio": expected.get(node.name)}
        yield from facts_of({**operator_facts(node, specs), **measured}, node.name)


def _node_times(nodes: tuple[Node, ...], profile: Profile) -> dict[str, float]:
    """Time of each node: operators are timed by name, so nodes of one name share it equally.

    The library may run an operator under another name (convolution as mkldnn_convolution); then its family decides.
    """
    by_name: dict[str, list[str]] = defaultdict(list)
    by_family: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        by_name[function(node.op)].append(node.name)
        by_family[family(node.op)].append(node.name)
    times: dict[str, float] = defaultdict(float)
    for step in profile.steps:
        if step.kind != "operator":
            continue
        names = by_name.get(function(step.name)) or by_family.get(family(step.name), [])
        for name in names:
            times[name] += step.time_us / len(names)
    return dict(times)


def _share(step: StepProfile, profile: Profile) -> float | None:
    return step.time_us / profile.total_us if profile.total_us else None
