"""Facts in, admissions and refusals out, each with its reason."""

import pytest
from skill_examples import KERNEL, PRODUCT, PROGRAM, facts_of

from kernelskill.skills import ExpertLibrary
from kernelskill.skills.bottlenecks import find_bottlenecks, headroom
from kernelskill.skills.expression import FactIndex
from kernelskill.skills.gate import assess

LIBRARY = ExpertLibrary(None, device="test machine")
MICRO = {card.id for card in LIBRARY.cards() if card.kind == "micro"}


def decision(facts, skill, subject=""):
    found = [
        item for item in LIBRARY.retrieve(facts).decisions if (item.skill, item.subject) == (skill, subject)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("share", "tier"), [(0.1, "high"), (0.6, "medium"), (0.85, "medium"), (0.9, "low"), (None, "unknown")]
)
def test_headroom(share, tier):
    assert headroom(FactIndex(facts_of({"floor_share_ratio": share}))) == tier


def test_bottlenecks_are_ranked_by_the_share_they_sit_on():
    kernels = {
        "a": {**KERNEL, "share_ratio": 0.3, "kernel_bound": "compute"},
        "b": {**KERNEL, "share_ratio": 0.25, "kernel_bound": "memory"},
        "c": {**KERNEL, "share_ratio": 0.25, "kernel_bound": "memory"},
        "d": {**KERNEL, "share_ratio": None, "kernel_bound": "latency"},
    }
    index = FactIndex(facts_of({"overhead_share_ratio": 0.2}, **kernels))
    found = find_bottlenecks(index, tuple(kernels), ())
    assert [item.name for item in found] == ["memory-bandwidth", "compute", "launch-overhead", "latency"]
    assert found[0].weight == pytest.approx(0.5)
    assert found[0].subjects == ("b", "c")
    assert found[-1].weight == 0.0, "matched, though its weight is not known"


def test_several_bottlenecks_of_one_base_admit_skills_for_each():
    facts = facts_of(
        PROGRAM,
        hot={**KERNEL, "share_ratio": 0.6},
        slow={**KERNEL, "share_ratio": 0.3, "kernel_bound": "compute", "vector_bits_used": 256},
    )
    assert decision(facts, "stream-stores", "hot").admitted
    assert not decision(facts, "stream-stores", "slow").admitted
    assert decision(facts, "widen-vectors", "slow").admitted


def test_a_decision_carries_condition_values_and_whether_it_was_measured():
    found = decision(facts_of(PROGRAM, k=KERNEL), "stream-stores", "k")
    assert found.admitted
    assert found.measured
    assert found.facts == {"kernel_bound": "memory", "in_cache": False, "schedule_nontemporal": False}
    assert "kernel_bound == 'memory' (kernel_bound=memory measured)" in found.reason
    assert "relieves memory-bandwidth" in found.reason
    refused = decision(facts_of({**PROGRAM, "in_cache": True}, k=KERNEL), "stream-stores", "k")
    assert not refused.admitted
    assert refused.reason == "fails: not in_cache (in_cache=True parsed)"
    assert refused.expected_speedup is None


@pytest.mark.parametrize("name", ["kernel_bound", "schedule_nontemporal", "share_ratio", "kernel_kind"])
def test_a_missing_fact_refuses(name):
    found = decision(facts_of(PROGRAM, k={**KERNEL, name: None}), "stream-stores", "k")
    assert not found.admitted
    without = facts_of(PROGRAM, k={key: value for key, value in KERNEL.items() if key != name})
    if name != "kernel_kind":  # without it the subject is not known to be a kernel at all
        assert not decision(without, "stream-stores", "k").admitted


ADMITTING = {
    "tune-threads": {"parallel_efficiency_ratio": 0.4},
    "widen-vectors": {"vector_bits_used": 256, "kernel_bound": "compute"},
    "unroll-accumulate": {"kernel_kind": "reduce", "kernel_bound": "latency"},
    "block-inner": {"kernel_kind": "strided", "bandwidth_share_ratio": 0.3},
    "stream-stores": {},
    "split-rows": {"kernel_kind": "reduce", "rows": 1, "parallel_efficiency_ratio": 0.5},
}


@pytest.mark.parametrize("skill", sorted(ADMITTING))
def test_each_micro_skill_is_admitted_by_its_facts_and_by_measured_ones_only(skill):
    kernel = {**KERNEL, **ADMITTING[skill]}
    found = decision(facts_of(PROGRAM, k=kernel), skill, "k")
    assert found.admitted, found.reason
    assert found.measured
    for name in found.facts:
        assert not decision(facts_of({**PROGRAM, name: None}, k={**kernel, name: None}), skill, "k").admitted
    assert not decision(facts_of(PROGRAM, k=KERNEL), skill, "k").admitted or not ADMITTING[skill]


def test_a_condition_that_holds_still_needs_a_bottleneck_to_relieve():
    facts = facts_of(
        PROGRAM, k={**KERNEL, "kernel_kind": "strided", "kernel_bound": None, "bandwidth_share_ratio": 0.3}
    )
    found = decision(facts, "block-inner", "k")
    assert not found.admitted
    assert (
        "relieves nothing that was found (its bottlenecks: memory-bandwidth, latency, compute)"
        in found.reason
    )


def test_small_kernels_are_left_alone():
    found = decision(facts_of(PROGRAM, k={**KERNEL, "share_ratio": 0.04}), "stream-stores", "k")
    assert not found.admitted
    assert "share_ratio >= 0.05 (share_ratio=0.04 measured)" in found.reason


def test_at_the_floor_only_stopping_is_admitted():
    facts = facts_of({**PROGRAM, "floor_share_ratio": 0.96, "count_dead": 3}, k=KERNEL, mm=PRODUCT)
    retrieval = LIBRARY.retrieve(facts)
    assert retrieval.admitted == ("stop-at-floor",)
    assert all("the floor is reached" in item.reason for item in retrieval.decisions if not item.admitted)
    assert "stop-at-floor" not in LIBRARY.retrieve(facts_of(PROGRAM, k=KERNEL)).admitted


def test_a_compiled_base_takes_no_edits_and_no_second_wrapper():
    facts = facts_of(
        {
            "target": "cpu",
            "operators_left": 4,
            "wrapper": "compile",
            "count_elementwise": 4,
            "floor_share_ratio": 0.3,
        }
    )
    assert LIBRARY.retrieve(facts).admitted == ()
    assert "already the compiled reference" in decision(facts, "library-compile").reason


def test_graph_facts_alone_admit_structural_skills_and_no_micro_skill():
    facts = facts_of(
        {
            "target": "cpu",
            "operators_left": 3,
            **COUNTS,
            "count_elementwise": 2,
            "count_softmax": 1,
            "count_rewrite": 1,
            "wrapper": "",
        }
    )
    retrieval = LIBRARY.retrieve(facts)
    assert retrieval.headroom == "unknown"
    assert set(retrieval.admitted) == {
        "fuse-elementwise",
        "online-softmax",
        "simplify-algebra",
        "library-compile",
    }
    assert not MICRO & set(retrieval.admitted)


def test_skills_of_the_other_target_are_refused_and_it_is_said():
    of_processors = {card.id for card in LIBRARY.cards() if card.targets == ("cpu",)}
    of_gpus = {card.id for card in LIBRARY.cards() if card.targets == ("cuda",)}
    for target, others in (("cpu", of_gpus), ("cuda", of_processors)):
        facts = facts_of({**PROGRAM, "target": target, "count_softmax": 1}, k=KERNEL, mm=PRODUCT)
        assert others
        assert not others & set(LIBRARY.retrieve(facts).admitted)
        reasons = [item.reason for item in LIBRARY.retrieve(facts).decisions if item.skill in others]
        assert reasons
        assert all("target" in reason for reason in reasons)


COUNTS = dict.fromkeys(
    (
        "count_elementwise", "count_reduction", "count_softmax", "count_norm", "count_scan", "count_pool",
        "count_matmul", "count_conv",
    ), 0,
)  # fmt: skip
LONE_ON_GPU = {**COUNTS, "operators_left": 1, "traffic_ratio": 1.0}
GPU = {"target": "cuda", "floor_share_ratio": 0.3, "floor_bound": "compute", "wrapper": ""}
WAITING = {**KERNEL, "kernel_kind": "row", "kernel_bound": "latency", "row_length": 100_000, "time_us": 90.0}
CONV = {
    "op": "aten.convolution.default",
    "share_ratio": 0.5,
    "conv_transposed": False,
    "conv_groups": 1,
    "conv_channels": 64,
}
DEAR = {
    **KERNEL, "kernel_bound": "compute", "exp_share_ratio": 0.5, "flops_share_ratio": 0.45, "transcendentals": 4096,
}  # fmt: skip
INTEGERS = {**DEAR, "exp_share_ratio": 0.0, "flops_share_ratio": 0.1, "transcendentals": 0}


@pytest.mark.parametrize(
    ("facts", "admitted", "left_out"),
    [
        (facts_of(GPU, mm=PRODUCT),
         {"tensor-core-matmul", "split-k-matmul", "tile-shared-memory", "register-tiling"},
         {"structured-matmul", "implicit-gemm-convolution", "persistent-recurrence", "privatize-atomics"}),
        (facts_of({**GPU, "floor_bound": "memory"}, mm=PRODUCT), {"split-k-matmul"},
         {"tensor-core-matmul", "register-tiling"}),
        (facts_of({**GPU, "count_masked_product": 1, "count_matmul": 1}, mm=PRODUCT), {"structured-matmul"}, set()),
        (facts_of(GPU, c=CONV), {"implicit-gemm-convolution"},
         {"direct-convolution", "transposed-convolution-phases", "tensor-core-matmul"}),
        (facts_of(GPU, c={**CONV, "conv_channels": 3}), {"direct-convolution"}, {"implicit-gemm-convolution"}),
        (facts_of(GPU, c={**CONV, "conv_channels": 1, "conv_groups": 64}), {"direct-convolution"},
         {"implicit-gemm-convolution"}),
        (facts_of(GPU, c={**CONV, "conv_transposed": True}), {"transposed-convolution-phases"},
         {"implicit-gemm-convolution", "direct-convolution"}),
        (facts_of({**GPU, "count_recurrent": 1, "operators_left": 1}), {"persistent-recurrence"}, {"split-k-matmul"}),
        (facts_of({**GPU, "count_linear_fold": 1, "count_matmul": 1}), {"collapse-linear-fold"}, set()),
        (facts_of({**GPU, "count_batch_norm": 1, "operators_left": 3}), {"restructure-batch-norm"}, set()),
        (facts_of({**GPU, "count_slice": 1}), {"slice-before-computing"}, set()),
        (facts_of({**GPU, "count_layout_copy": 1, "operators_left": 1}), {"fuse-elementwise"}, set()),
        (facts_of({**GPU, "count_layout_copy": 0, "operators_left": 1}), set(), {"fuse-elementwise"}),
        (facts_of({**GPU, "floor_share_ratio": None, "floor_bound": "memory", **LONE_ON_GPU, "count_elementwise": 1},
                  e={"op": "aten.relu.default", "op_family": "elementwise"}), {"leave-single-pass"}, set()),
        (facts_of({**GPU, "floor_share_ratio": None, "floor_bound": "memory", **LONE_ON_GPU, "count_matmul": 1},
                  e={"op": "aten.mm.default", "op_family": "matmul", "product_rows": 9, "product_columns": 9}), set(),
         {"leave-single-pass"}),
        (facts_of(GPU, s={"op": "aten.scatter_add.default", "share_ratio": 0.5}), {"privatize-atomics"}, set()),
        (facts_of({**GPU, "overhead_share_ratio": 0.5, "kernels": 9, "operators_left": 0}),
         {"cuda-graphs", "remove-host-sync"}, {"overlap-streams"}),
        (facts_of({**GPU, "overhead_share_ratio": 0.05, "kernels": 9, "operators_left": 0}), {"overlap-streams"},
         {"cuda-graphs", "remove-host-sync"}),
        (facts_of({**GPU, "count_softmax": 1, "count_matmul": 2, "count_conv": 0, "operators_left": 4, "count_elementwise": 1,
                   "count_attention": 1, "count_epilogue": 1}),
         {"fused-attention", "fuse-matmul-epilogue"}, {"fuse-convolution-epilogue"}),
        (facts_of(GPU, k={**WAITING, "occupancy_ratio": 0.2}),
         {"raise-occupancy", "pipeline-loads", "persistent-kernel", "align-vector-access"},
         {"coalesce-access", "approximate-transcendentals", "pack-half-math", "reduce-unrolling"}),
        (facts_of(GPU, k={**KERNEL, "bandwidth_share_ratio": 0.3, "index_divisions": 0.0}), {"coalesce-access"},
         {"pipeline-loads", "batch-gpu-rows", "simplify-index-arithmetic", "pad-shared-memory"}),
        (facts_of(GPU, k={**KERNEL, "bandwidth_share_ratio": 0.3, "load_use_pct": 100.0, "store_use_pct": 50.0}),
         {"coalesce-access"}, set()),
        (facts_of(GPU, k={**KERNEL, "bandwidth_share_ratio": 0.3, "load_use_pct": 100.0, "store_use_pct": 95.0}), set(),
         {"coalesce-access"}),
        (facts_of(GPU, k={**KERNEL, "bandwidth_share_ratio": 0.3, "index_divisions": 3.0}), {"simplify-index-arithmetic"},
         set()),
        (facts_of(GPU, k={**KERNEL, "shared_conflict_ratio": 0.9}), {"pad-shared-memory"}, {"tile-shared-memory"}),
        (facts_of(GPU, k={**KERNEL, "shared_bank_ways": 32}), {"pad-shared-memory"}, set()),
        (facts_of(GPU, k={**KERNEL, "shared_bank_ways": 1, "shared_conflict_ratio": 0.0}), set(), {"pad-shared-memory"}),
        (facts_of(GPU, k={**DEAR, "data_bits": 32}),
         {"approximate-transcendentals", "uniform-control-flow", "cheaper-math"},
         {"coalesce-access", "simplify-index-arithmetic", "pack-half-math"}),
        (facts_of(GPU, k={**DEAR, "data_bits": 16}), {"pack-half-math"}, set()),
        (facts_of(GPU, k={**DEAR, "transcendentals": 0}), {"cheaper-math"}, {"approximate-transcendentals"}),
        (facts_of(GPU, k={**INTEGERS, "issue_share_ratio": 0.7}), {"cheaper-math"}, {"approximate-transcendentals"}),
        (facts_of(GPU, k={**INTEGERS, "issue_share_ratio": 0.4, "sm_throughput_pct": 40.0}), set(), {"cheaper-math"}),
        (facts_of({**GPU, "target": "cpu"}, k={**DEAR, "spills": 6}),
         {"shorten-live-ranges", "reduce-unrolling", "loop-fission"}, {"pack-half-math"}),
        (facts_of(GPU, k={**WAITING, "row_length": 64}), {"batch-gpu-rows"}, {"pipeline-loads"}),
    ],
)  # fmt: skip
def test_each_skill_is_admitted_where_an_expert_would_think_of_it(facts, admitted, left_out):
    found = set(LIBRARY.retrieve(facts).admitted)
    assert admitted <= found
    assert not left_out & found


UNFUSED = {**PROGRAM, "kernels": 2, "operators_left": 0}


@pytest.mark.parametrize(("saving", "admitted"), [(0.3, True), (0.02, True), (0.01, False), (None, False)])
def test_kernels_are_merged_where_what_passes_between_them_takes_time(saving, admitted):
    found = decision(facts_of({**UNFUSED, "merge_saving_ratio": saving}), "merge-kernels")
    assert found.admitted == admitted
    if admitted:
        assert found.expected_speedup <= 1 / (1 - saving) + 1e-9, "no more than is there to save"
    else:
        assert "merge_saving_ratio" in found.reason


LONE = {"target": "cpu", "wrapper": "", "operators_left": 1, "traffic_ratio": 1.0}


@pytest.mark.parametrize(
    ("changes", "admitted"),
    [
        ({"count_matmul": 1}, False), ({"count_matmul": 2, "operators_left": 2, "traffic_ratio": 2.0}, False),
        ({"count_conv": 1}, False), ({"count_elementwise": 1}, False), ({"count_norm": 1, "traffic_ratio": 1.5}, True),
        ({"count_elementwise": 2, "operators_left": 2}, True),
        ({"count_matmul": 1, "count_elementwise": 1, "operators_left": 2}, True),
    ],
)  # fmt: skip
def test_the_compiler_is_asked_where_there_is_something_to_fuse(changes, admitted):
    assert decision(facts_of({**LONE, **COUNTS, **changes}), "library-compile").admitted == admitted


def test_empty_facts_admit_nothing():
    retrieval = LIBRARY.retrieve(facts_of({}))
    assert retrieval.admitted == ()
    assert {item.skill for item in retrieval.decisions} == {card.id for card in LIBRARY.cards()}


def test_every_skill_and_subject_gets_one_decision_whatever_the_order_of_facts():
    facts = facts_of(
        PROGRAM,
        a=KERNEL,
        b={**KERNEL, "kernel_kind": "row"},
        mm={"op": "aten.mm.default", "share_ratio": 0.2},
    )
    first = LIBRARY.retrieve(facts)
    assert first == LIBRARY.retrieve(facts)
    turned = facts.model_copy(update={"facts": facts.facts[::-1]})
    assert LIBRARY.retrieve(turned).decisions == first.decisions
    keys = [(item.skill, item.subject) for item in first.decisions]
    assert len(keys) == len(set(keys))
    assert assess(facts).operators == ("mm",)
