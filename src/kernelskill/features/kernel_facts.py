"""Facts of one kernel.

Parsed: what it computes and how it is scheduled. Measured: how near it runs to a ceiling of the machine.
"""

from __future__ import annotations

import math

from kernelskill.features.function_costs import exponentials
from kernelskill.program import Kernel, Region
from kernelskill.program.region import Operand, Stage
from kernelskill.program.scalar import TRANSCENDENTAL
from kernelskill.records import DTYPE_BYTES, Ceilings, Graph, Record, Scalar, StepProfile

NEAR_CEILING = 0.5
"""Share of a ceiling from which it, and not latency, is what holds a kernel back."""
_FREE = frozenset({"load", "copy", "to_float", "to_mask", "neg", "abs", "not"})


class Load(Record):
    """What one call of a kernel moves and computes."""

    read_bytes: int
    written_bytes: int
    transcendentals: int
    flops: int
    exponentials: float | None = None
    """What its dear functions cost, in exponentials (`function_costs`); None where only their number is known."""

    @property
    def moved_bytes(self) -> int:
        """Distinct bytes read and written."""
        return self.read_bytes + self.written_bytes

    def dear_us(self, ceilings: Ceilings) -> float:
        """Microseconds that its dear functions need at the ceiling."""
        count = self.transcendentals if self.exponentials is None else self.exponentials
        return count / ceilings.exp_gops / 1e3


def load_of(kernel: Kernel, graph: Graph, target: str) -> Load:
    """What a kernel moves and computes. A template is taken by the tensors that its node reads and writes.

    Args:
        kernel: Whose work.
        graph: That it is part of.
        target: Device that it is printed for, "cpu" or "cuda".
    """
    region = kernel.region
    if region is None:
        return _template_load(kernel, graph, target)
    elements = math.prod(axis.size for axis in region.axes)
    stages = (*region.stages, *([region.total_stage] if region.total_stage else []))
    times = [region.rows if stage.kind == "scalar" else elements for stage in region.stages]
    times += [1] * (len(stages) - len(times))
    work = [_stage_work(stage) for stage in stages]
    return Load(
        read_bytes=sum(_distinct(region, operand) for operand in region.inputs),
        written_bytes=sum(_distinct(region, operand) for operand in region.outputs),
        transcendentals=sum(one[0] * count for one, count in zip(work, times, strict=True)),
        flops=sum(one[1] * count for one, count in zip(work, times, strict=True))
        + len(region.total) * region.rows,
        exponentials=sum(
            exponentials(stage, target) * count for stage, count in zip(stages, times, strict=True)
        ),
    )


def program_facts(kernel: Kernel, load: Load) -> dict[str, Scalar]:
    """What is known of a kernel without running it."""
    schedule = kernel.schedule
    read = [item.dtype for item in kernel.region.inputs] if kernel.region else []
    return {
        **_shape_facts(kernel),
        "data_bits": 8
        * max(DTYPE_BYTES[dtype] for dtype in (*read, *(spec.dtype for spec in kernel.outputs))),
        "bytes": load.moved_bytes,
        "transcendentals": load.transcendentals,
        "flops": load.flops,
        "schedule_threads": schedule.threads,
        "schedule_vector_bits": schedule.vector_bits,
        "schedule_unroll": schedule.unroll,
        "schedule_accumulators": schedule.accumulators,
        "schedule_block": schedule.block,
        "schedule_nontemporal": schedule.nontemporal,
        "schedule_split": schedule.split,
        **{f"gpu_{name}": value for name, value in schedule.gpu.model_dump().items()},
    }


REGISTERS = 65536
"""Registers of a multiprocessor of compute capability 7.0 to 10.0 (CUDA C++ programming guide)."""
RESIDENT_WARPS = 64
SHARED_BYTES = 228 << 10
"""Shared memory of a multiprocessor of compute capability 9.0, and near it elsewhere."""
SYSTEM_SHARED = 1 << 10
"""What each program takes of it beside its own, from compute capability 8.0."""
RESIDENT_PROGRAMS = 32
"""Programs of a multiprocessor of compute capability 8.0, 9.0 and 10.0: those of one warp fill half of it."""


def occupancy_ratio(registers: int, shared_bytes: int, warps: int) -> float | None:
    """Share of a multiprocessor's warps that programs of this size can fill; None where a number is missing.

    Source: CUDA C++ programming guide, technical specifications per compute capability.
    """
    if registers <= 0 or warps <= 0:
        return None
    by_registers = REGISTERS // (-(-registers // 8) * 8 * 32 * warps)
    by_shared = SHARED_BYTES // (SYSTEM_SHARED + shared_bytes)
    return min(1.0, min(by_registers, by_shared, RESIDENT_PROGRAMS) * warps / RESIDENT_WARPS)


def launch_us(kernel: Kernel, ceilings: Ceilings) -> float:
    """What one call costs before it computes: the call, its results' allocation, a parallel region if it opens one.

    On a GPU it is the launch alone: the host allocates while other kernels run, and their times are the device's.
    """
    if on_gpu(ceilings):
        return ceilings.call_us
    region, schedule = kernel.region, kernel.schedule
    elements = math.prod(axis.size for axis in region.axes) if region else kernel.outputs[0].numel
    parallel = ceilings.threads > 1 and schedule.threads != 1 and elements >= 2 * schedule.grain
    regions = ceilings.parallel_us if parallel else 0.0
    return ceilings.call_us + len(kernel.outputs) * ceilings.operator_us + regions


def measured_facts(
    step: StepProfile,
    load: Load,
    overhead_us: float,
    ceilings: Ceilings,
    total_us: float | None,
    *,
    is_map: bool = False,
    waves: float | None = None,
    issued_us: float | None = None,
) -> dict[str, Scalar]:
    """How near a kernel runs to this machine's ceilings. Nothing is said about a time of 0.

    Args:
        step: Its measured time per call of forward (all its calls together).
        load: What one of its calls moves and computes.
        overhead_us: `launch_us` of the kernel.
        ceilings: Of the machine that it was measured on.
        total_us: Time of a whole call of forward, microseconds.
        is_map: Whether its elements are independent of each other.
        waves: Times that its launch fills a GPU (`bounds.waves_ratio`).
        issued_us: Least time to issue its instructions (`bounds.issue_us`).
    """
    time_us = step.time_us
    if time_us <= 0:
        return {}
    moved = ceilings.traffic_us(load.read_bytes, load.written_bytes) * step.calls / time_us
    dear = load.dear_us(ceilings) * step.calls / time_us
    arithmetic = load.flops * step.calls / ceilings.fp32_gflops / 1e3 / time_us
    launch = overhead_us * step.calls / time_us
    issued = None if issued_us is None else issued_us * step.calls / time_us
    computed = max(dear + arithmetic * plain_pipes(ceilings), issued or 0.0)
    is_brief = on_gpu(ceilings) and time_us <= BRIEF_US * step.calls
    single = step.one_thread_us
    return {
        "time_us": time_us,
        "share_ratio": time_us / total_us if total_us else None,
        "bandwidth_gb_per_s": load.moved_bytes * step.calls / time_us / 1e3,
        "bandwidth_share_ratio": moved,
        "exp_share_ratio": dear,
        "flops_share_ratio": arithmetic,
        "issue_share_ratio": issued,
        "parallel_efficiency_ratio": None if single is None else single / (ceilings.threads * time_us),
        "kernel_bound": _bound(
            moved, computed, launch, is_map or (waves is not None and waves >= 1), is_brief=is_brief
        ),
    }


PLAIN_PIPES = 2.0
"""A GPU's ceiling of float32 accuracy (three TF32 products for one) over the rate of its plain pipes: 140 over 67
TFLOP/s on an H200."""


BRIEF_US = 5.0
"""A launch on a GPU that is near no ceiling and ends within this time is mostly start and end."""


def on_gpu(ceilings: Ceilings) -> bool:
    """Whether ceilings are those of a GPU: no processor has a rate of TF32 products."""
    return ceilings.tf32_gflops is not None


def plain_pipes(ceilings: Ceilings) -> float:
    """Factor from a share of the ceiling to a share of what a kernel without tensor cores can reach."""
    return PLAIN_PIPES if on_gpu(ceilings) else 1.0


def _bound(moved: float, computed: float, launch: float, has_enough: bool, *, is_brief: bool) -> str:
    """Launching first, as a small kernel is near no ceiling; then the nearer ceiling; else waiting.

    The elements of a map do not wait for each other, and a launch that fills a GPU at least once keeps all the warps
    there that fit: what is near no ceiling then lacks throughput, not parallelism. It asks more of the part that it
    needs most than its work does: sectors that nobody uses, bank conflicts, lanes that part.
    """
    if launch >= NEAR_CEILING or (is_brief and max(moved, computed) < NEAR_CEILING):
        return "overhead"
    if not has_enough and max(moved, computed) < NEAR_CEILING:
        return "latency"
    return "memory" if moved >= computed else "compute"


def _shape_facts(kernel: Kernel) -> dict[str, Scalar]:
    body = kernel.body
    if isinstance(body, Region):
        return {
            "kernel_kind": body.kind,
            "rows": body.rows,
            "row_length": body.row_length,
            "inner_length": body.axes[-1].size,
            "passes": body.passes,
        }
    space = body.prologue
    known: dict[str, Scalar] = {"kernel_kind": "pool" if "pool" in body.name else "scan", "passes": 1}
    if space is not None and not space.is_map:
        known |= {"rows": space.rows, "row_length": space.row_length, "inner_length": space.axes[-1].size}
    return known


def _stage_work(stage: Stage) -> tuple[int, int]:
    """Transcendentals and other arithmetic for each element (each row, in a scalar stage)."""
    evaluated = sum(op.fn in TRANSCENDENTAL for op in stage.ops)
    other = sum(op.fn not in TRANSCENDENTAL and op.fn not in _FREE for op in stage.ops)
    softmaxes = sum(item.fold == "softmax" for item in stage.reductions)
    return evaluated + softmaxes, other + len(stage.reductions) + 2 * softmaxes


def _distinct(region: Region, operand: Operand) -> int:
    sizes = (axis.size for axis, step in zip(region.axes, operand.strides, strict=True) if step)
    return math.prod(sizes) * DTYPE_BYTES[operand.dtype]


def _template_load(kernel: Kernel, graph: Graph, target: str) -> Load:
    node = next((item for item in graph.nodes if item.op == f"kernel:{kernel.name}"), None)
    written = sum(spec.numel * spec.itemsize for spec in kernel.outputs)
    if node is None:
        return Load(read_bytes=0, written_bytes=written, transcendentals=0, flops=0)
    specs = [graph.spec(ref) for ref in dict.fromkeys(node.refs())]
    elements = max([spec.numel for spec in (*specs, *kernel.outputs)], default=0)
    parts = [part for part in (_part(kernel, "prologue"), _part(kernel, "epilogue")) if part is not None]
    stages = [stage for part in parts for stage in part.stages]
    work = [_stage_work(stage) for stage in stages]
    return Load(
        read_bytes=sum(spec.numel * spec.itemsize for spec in specs),
        written_bytes=written,
        transcendentals=elements * sum(one[0] for one in work),
        flops=elements * (1 + sum(one[1] for one in work)),
        exponentials=elements * sum(exponentials(stage, target) for stage in stages),
    )


def _part(kernel: Kernel, name: str) -> Region | None:
    part = getattr(kernel.body, name, None)
    return part if isinstance(part, Region) else None
