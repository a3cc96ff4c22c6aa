"""Facts of whole candidates: from program, profile, machine code, floor and verdict."""

import pytest

from kernelskill.errors import ProgramError
from kernelskill.features import CATALOG, ExpertFeatureReader
from kernelskill.program import Kernel, Program, Region, Schedule, Template
from kernelskill.program.region import Axis, Op, Operand, Reduction, Stage, Store
from kernelskill.records import (
    Baselines,
    Candidate,
    Ceilings,
    Comparison,
    Evaluation,
    Floor,
    Graph,
    GraphInput,
    Interval,
    Node,
    Profile,
    Ref,
    Status,
    StepProfile,
    TensorSpec,
    Timing,
    Workload,
)

ROWS, LENGTH = 1000, 2000
SPEC = TensorSpec.contiguous((ROWS, LENGTH))
MACHINE = Ceilings(
    device="round numbers", threads=2, bandwidth_gb_per_s={"1000": 20.0, "100000000": 20.0}, fp32_gflops=100.0,
    exp_gops=4.0, parallel_us=5.0, call_us=1.0, operator_us=1.5, measured_on="2026-01-01", cache_bytes=4_000_000,
)  # fmt: skip
FLOOR = Floor(
    bytes_min=16_000_000, flops=0, transcendentals=0, launches=2, memory_ms=0.8, compute_ms=0.1, overhead_ms=0.001,
    floor_ms=0.801, bound="memory",
)  # fmt: skip


def softmax_region() -> Region:
    def operand(name: str) -> Operand:
        return Operand(name=name, dtype="float32", strides=(LENGTH, 1))

    scaled = (Op(name="a", fn="load", args=("x",)), Op(name="e", fn="exp", args=("a",)))
    return Region(
        axes=(Axis(size=ROWS, role="parallel"), Axis(size=LENGTH, role="reduce")),
        inputs=(operand("x"),),
        outputs=(operand("y"),),
        stages=(
            Stage(kind="reduce", ops=scaled, reductions=(Reduction(name="s", fold="sum", value="e"),)),
            Stage(kind="scalar", ops=(Op(name="r", fn="div", args=(1.0, "s")),)),
            Stage(
                kind="map",
                ops=(*scaled, Op(name="q", fn="mul", args=("e", "r"))),
                stores=(Store(operand="y", value="q"),),
            ),
        ),
    )


def program(**schedule) -> Program:
    graph = Graph(
        inputs=(GraphInput(name="x", spec=SPEC, leaf=0),),
        state=(),
        nodes=(
            Node(name="rows", op="kernel:rows", args=(Ref(node="x"),), outputs=(SPEC,)),
            Node(name="mm", op="aten.mm.default", args=(Ref(node="rows"), Ref(node="x")), outputs=(SPEC,)),
            Node(name="view", op="aten.view.default", args=(Ref(node="mm"), (-1,)), outputs=(SPEC,)),
        ),
        outputs=(Ref(node="view"),),
        outputs_tree={"tensor": 0},
    )
    kernel = Kernel(name="rows", body=softmax_region(), schedule=Schedule(**schedule), outputs=(SPEC,))
    return Program(graph=graph, kernels=(kernel,))


def candidate(of: Program | None = None) -> Candidate:
    return Candidate(id="c001", source="", program=of.model_dump(mode="json") if of else None)


def profile(time_us: float, one_thread_us: float | None = None, total_us: float = 4000.0) -> Profile:
    steps = (
        StepProfile(name="rows", kind="kernel", time_us=time_us, calls=1, one_thread_us=one_thread_us),
        StepProfile(name="aten.mm", kind="operator", time_us=400.0, calls=1),
    )
    static = {
        "rows": {"vector_bits_used": 512, "libm_calls": 0, "spills": 3, "gathers": 0, "loop_instructions": 90}
    }
    return Profile(kind="timeline", total_us=total_us, steps=steps, static=static)


def read(of: Program | None, seen: Profile | None = None, **known):
    return ExpertFeatureReader(MACHINE).read(candidate(of), seen, FLOOR, **known)


def evaluation(ms: float, speedup: float | None) -> Evaluation:
    timing = Timing(arm="candidate", median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),))
    compared = ()
    if speedup:
        interval = Interval(low=speedup, value=speedup, high=speedup)
        compared = (Comparison(arm="compile", speedup=interval, rounds=1, sets=1, significant=True),)
    return Evaluation(
        candidate_id="c001", source_hash="", stage="screen", status=Status.PASSED, timings=(timing,),
        comparisons=compared,
    )  # fmt: skip


STOCK = Baselines(
    timings=(Timing(arm="compile", median_ms=2.0, p10_ms=2.0, p90_ms=2.0, samples_ms=((2.0,),)),),
    best_arm="compile",
    noise_band_ratio=0.02,
    null_ms=0.0,
)


COUNTED = {
    "counted_us": 800.0, "counted_launches": 1, "dram_throughput_pct": 30.0, "l2_throughput_pct": 20.0,
    "l1_throughput_pct": 15.0, "sm_throughput_pct": 12.0, "achieved_occupancy_pct": 90.0, "issue_pct": 10.0,
    "eligible_warps": 0.1, "tensor_pct": 0.0, "special_function_pct": 5.0, "l1_hit_pct": 1.0, "l2_hit_pct": 50.0,
    "load_use_pct": 100.0, "store_use_pct": 100.0, "load_sectors": 16.0, "store_sectors": 16.0, "active_lanes": 32.0,
    "divergent_branch_pct": 0.0, "waves": 2.5, "dram_bytes": 24e6, "local_bytes": 0, "shared_conflict_ratio": 0.0,
    "top_stall": "long_scoreboard", "top_stall_pct": 80.0, "memory_stall_pct": 85.0, "barrier_stall_pct": 1.0,
    "occupancy_limiter": "registers",
}  # fmt: skip
IN_PTX = {
    "access_bits": 128, "global_accesses": 8, "async_copies": 0, "matrix_instructions": 0, "atomics": 0, "barriers": 2,
    "local_accesses": 0, "special_functions": 4,
}  # fmt: skip


def test_every_fact_is_in_the_catalog_with_its_origin_and_unit():
    facts = read(program(), profile(2000.0, 3000.0), evaluation=evaluation(1.6, 1.25), baselines=STOCK)
    for fact in facts.facts:
        entry = CATALOG[fact.name]
        assert (fact.origin, fact.unit) == (entry.origin, entry.unit)
        assert ("program" in entry.subjects) == (fact.subject == "")
    on_gpu = {
        "registers",
        "shared_bytes",
        "warps",
        "occupancy_ratio",
        "graph_gain_ratio",
        "compute_capability",
        "issue_share_ratio",
        "shared_bank_ways",
        "fusable_share_ratio",
    }
    on_gpu |= set(COUNTED) | {"counted_bound", "counted_traffic_ratio"} | set(IN_PTX) | {"fill_ratio"}
    elsewhere = on_gpu | {name for name in CATALOG if name.startswith("conv_")} | {"expected_share_ratio"}
    assert {fact.name for fact in facts.facts} == set(CATALOG) - elsewhere, "it has every fact of a processor"
    assert len({(fact.name, fact.subject) for fact in facts.facts}) == len(facts.facts)


def test_a_profile_that_told_no_kernel_apart_says_nothing_of_overhead():
    only = StepProfile(name="python", kind="overhead", time_us=3600.0, calls=1)
    seen = profile(2000.0).model_copy(update={"steps": (only,)})
    assert read(program(), seen).get("overhead_share_ratio") is None


def test_the_whole_program():
    facts = read(program(), profile(2000.0))
    assert (facts.get("target"), facts.get("threads"), facts.get("wrapper")) == ("cpu", 2, "")
    assert (facts.get("kernels"), facts.get("operators_left"), facts.get("count_matmul")) == (1, 1, 1)
    assert facts.get("in_cache") is False
    assert facts.get("overhead_share_ratio") == pytest.approx(1 - 2400 / 4000)
    assert facts.subjects() == ("rows", "mm")


def test_what_was_not_measured_is_unknown():
    facts = read(program())
    for name in ("base_ms", "floor_share_ratio", "best_stock_ratio", "overhead_share_ratio"):
        assert facts.get(name) is None
    for name in ("time_us", "kernel_bound", "vector_bits_used", "parallel_efficiency_ratio"):
        assert facts.get(name, "rows") is None
    assert facts.get("time_us", "mm") is None


def test_times_of_the_judge():
    facts = read(program(), evaluation=evaluation(1.6, 1.25), baselines=STOCK)
    assert facts.get("base_ms") == 1.6
    assert facts.get("floor_share_ratio") == pytest.approx(0.801 / 1.6)
    assert facts.get("best_stock_ratio") == pytest.approx(0.8), "from the paired rounds"
    unpaired = read(program(), evaluation=evaluation(1.0, None), baselines=STOCK)
    assert unpaired.get("best_stock_ratio") == pytest.approx(0.5)


def test_what_a_kernel_computes():
    facts = read(program(accumulators=2, vector_bits=256, nontemporal=True))
    n = ROWS * LENGTH
    expected = {
        "kernel_kind": "row", "rows": ROWS, "row_length": LENGTH, "inner_length": LENGTH, "passes": 2, "bytes": 8 * n,
        "transcendentals": 2 * n, "flops": 2 * n + ROWS, "schedule_accumulators": 2, "schedule_vector_bits": 256,
        "schedule_nontemporal": True, "schedule_threads": 0,
    }  # fmt: skip
    assert {name: facts.get(name, "rows") for name in expected} == expected


def test_how_near_a_kernel_runs_to_the_ceilings():
    facts = read(program(), profile(2000.0, one_thread_us=3000.0))
    assert facts.get("bandwidth_gb_per_s", "rows") == pytest.approx(8.0)
    assert facts.get("bandwidth_share_ratio", "rows") == pytest.approx(0.4)
    assert facts.get("exp_share_ratio", "rows") == pytest.approx((4e6 + 0.5 * ROWS) / 4e9 / 2e-3), (
        "with a division a row"
    )
    assert facts.get("parallel_efficiency_ratio", "rows") == pytest.approx(0.75)
    assert facts.get("share_ratio", "rows") == pytest.approx(0.5)
    assert (facts.get("spills", "rows"), facts.get("vector_bits_used", "rows")) == (3, 512)


def test_an_operator_gets_the_time_measured_under_its_name():
    facts = read(program(), profile(2000.0))
    assert facts.get("op", "mm") == "aten.mm.default"
    assert facts.get("time_us", "mm") == 400.0
    assert facts.get("share_ratio", "mm") == pytest.approx(0.1)


def test_operators_of_one_name_share_its_time_and_aliases_go_by_family():
    base = program()
    conv = Node(name="conv", op="aten.convolution.default", args=(Ref(node="x"),), outputs=(SPEC,))
    second = Node(name="mm2", op="aten.mm.default", args=(Ref(node="mm"), Ref(node="conv")), outputs=(SPEC,))
    nodes = (*base.graph.nodes[:2], conv, second)
    graph = base.graph.model_copy(update={"nodes": nodes, "outputs": (Ref(node="mm2"),)})
    alias = StepProfile(name="aten.mkldnn_convolution", kind="operator", time_us=70.0, calls=1)
    seen = profile(2000.0)
    facts = read(
        base.model_copy(update={"graph": graph}), seen.model_copy(update={"steps": (*seen.steps, alias)})
    )
    assert (facts.get("time_us", "mm"), facts.get("time_us", "mm2")) == (200.0, 200.0)
    assert facts.get("time_us", "conv") == 70.0


def plain_map(elements: int, fn: str) -> Program:
    spec = TensorSpec.contiguous((elements,))
    operands = [Operand(name=name, dtype="float32", strides=(1,)) for name in ("x", "y")]
    ops = (Op(name="a", fn="load", args=("x",)), Op(name="b", fn=fn, args=("a",)))
    region = Region(
        axes=(Axis(size=elements, role="parallel"),),
        inputs=(operands[0],),
        outputs=(operands[1],),
        stages=(Stage(kind="map", ops=ops, stores=(Store(operand="y", value="b"),)),),
    )
    graph = Graph(
        inputs=(GraphInput(name="x", spec=spec, leaf=0),),
        state=(),
        nodes=(Node(name="rows", op="kernel:rows", args=(Ref(node="x"),), outputs=(spec,)),),
        outputs=(Ref(node="rows"),),
        outputs_tree={"tensor": 0},
    )
    return Program(graph=graph, kernels=(Kernel(name="rows", body=region, outputs=(spec,)),))


@pytest.mark.parametrize(
    ("of", "time_us", "bound"),
    [
        (plain_map(1_000_000, "neg"), 500.0, "memory"),  # 8 MB at 20 GB/s take 400 us
        (plain_map(1_000_000, "neg"), 2000.0, "memory"),  # near no ceiling; the nearer one counts
        (plain_map(4_000, "exp"), 4.0, "overhead"),
        (program(), 1100.0, "compute"),  # 4 million exponentials take 1000 us, 16 MB take 800 us
        (plain_map(40_000, "neg"), 14.0, "overhead"),  # two threads: the parallel region counts as well
    ],
)
def test_what_a_kernels_time_is_spent_on(of, time_us, bound):
    assert read(of, profile(time_us)).get("kernel_bound", "rows") == bound


def test_a_template_is_taken_by_its_tensors_and_the_space_that_it_reads():
    base = plain_map(4_000, "neg")
    spec = base.kernels[0].outputs[0]
    body = Template(name="scan", parameters={"length": LENGTH}, prologue=softmax_region())
    scan = Kernel(name="rows", body=body, outputs=(spec,))
    facts = read(base.model_copy(update={"kernels": (scan,)}))
    assert facts.get("kernel_kind", "rows") == "scan"
    assert (facts.get("bytes", "rows"), facts.get("passes", "rows")) == (32_000, 1)
    assert (facts.get("rows", "rows"), facts.get("row_length", "rows")) == (ROWS, LENGTH)
    bare = scan.model_copy(update={"body": Template(name="max_pool", parameters={})})
    facts = read(base.model_copy(update={"kernels": (bare,)}))
    assert (facts.get("kernel_kind", "rows"), facts.get("rows", "rows")) == ("pool", None)


def test_a_candidate_without_a_program_has_measured_facts():
    facts = read(None, profile(2000.0), evaluation=evaluation(1.6, 1.25), baselines=STOCK)
    assert facts.get("time_us", "rows") == 2000.0
    assert facts.get("vector_bits_used", "rows") == 512
    assert facts.get("base_ms") == 1.6
    assert facts.get("operators_left") is None
    assert facts.get("kernel_kind", "rows") is None


def test_a_program_of_another_version_is_an_error_that_says_so():
    strange = Candidate(id="c009", source="", program={"graph": 3})
    with pytest.raises(ProgramError, match="c009"):
        ExpertFeatureReader(MACHINE).read(strange, None, FLOOR)


def test_the_captured_reference():
    graph = program().graph
    nodes = (
        Node(name="rows", op="aten._softmax.default", args=(Ref(node="x"), -1, False), outputs=(SPEC,)),
        *graph.nodes[1:],
    )
    workload = Workload(
        inputs=(SPEC,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(SPEC,), outputs_tree={"tensor": 0}, state=(),
        eager_ms=1.0,
        graph=graph.model_copy(update={"nodes": nodes}),
    )  # fmt: skip
    facts = ExpertFeatureReader(MACHINE).read_graph(workload, FLOOR)
    assert (facts.get("kernels"), facts.get("count_softmax"), facts.get("operators_left")) == (0, 1, 2)
    assert facts.get("op", "rows") == "aten._softmax.default"
    assert facts.get("base_ms") is None
    bare = ExpertFeatureReader(MACHINE).read_graph(workload.model_copy(update={"graph": None}), FLOOR)
    assert bare.get("count_softmax") is None
    assert bare.get("floor_ms") == FLOOR.floor_ms


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "share"),
    [
        (32, 0, 8, 1.0),
        (255, 0, 4, 0.125),
        (64, 100 << 10, 4, 0.125),
        (64, 114 << 10, 4, 0.0625),  # two of them fit but for what the system takes of each
        (128, 1024, 16, 0.25),
        (16, 0, 1, 0.5),  # 32 programs, and no more
    ],
)
def test_occupancy_is_what_registers_shared_memory_and_the_number_of_programs_leave(
    registers, shared, warps, share
):
    seen = profile(2000.0)
    told = {"registers": registers, "shared_bytes": shared, "warps": warps}
    seen = seen.model_copy(update={"static": {"rows": told}})
    facts = ExpertFeatureReader(MACHINE, "cuda").read(candidate(program()), seen, FLOOR)
    assert facts.get("occupancy_ratio", "rows") == share
    assert facts.get("target") == "cuda"


def counted(**changes) -> Profile:
    return profile(2000.0).model_copy(
        update={"kind": "counters", "counters": {"rows": {**COUNTED, **changes}, "_foreign": {"waves": 1.0}}}
    )


def test_counters_of_a_kernel_are_facts_beside_its_times():
    facts = read(program(), counted())
    for name, value in COUNTED.items():
        assert facts.get(name, "rows") == value
    assert facts.get("counted_traffic_ratio", "rows") == pytest.approx(24e6 / 16e6), "read more than once"
    assert facts.get("kernel_bound", "rows") is not None
    assert facts.get("waves", "_foreign") is None, "no kernel of the program"


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, "latency"),
        ({"dram_throughput_pct": 80.0}, "memory"),
        ({"l2_throughput_pct": 70.0, "sm_throughput_pct": 60.0}, "memory"),
        ({"sm_throughput_pct": 75.0}, "compute"),
        ({"counted_us": 4.0}, "overhead"),
        ({"counted_us": 4.0, "dram_throughput_pct": 80.0}, "memory"),
        ({"counted_us": 8.0, "counted_launches": 2}, "overhead"),
        ({"sm_throughput_pct": None}, None),
    ],
)
def test_what_counters_say_a_kernel_spends_its_time_on(changes, bound):
    assert read(program(), counted(**changes)).get("counted_bound", "rows") == bound


def test_what_a_kernel_is_expected_to_wait_for():
    assert read(program()).get("expected_bound", "rows") == "compute", (
        "4 million exponentials at 4 a nanosecond"
    )


def test_a_source_without_a_program_has_the_counters_of_all_its_kernels():
    told = counted().model_copy(update={"static": {"_foreign": {"registers": 40}}})
    facts = ExpertFeatureReader(MACHINE, "cuda").read(candidate(), told, FLOOR)
    assert facts.get("waves", "_foreign") == 1.0
    assert facts.get("registers", "_foreign") == 40
    assert facts.get("dram_throughput_pct", "rows") == 30.0
