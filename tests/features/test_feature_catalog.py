"""The vocabulary: complete, typed, and strict."""

import pytest

from kernelskill.features import CATALOG
from kernelskill.features.catalog import fact, facts_of, measured, names, vocabularies

PROGRAM = """target threads floor_ms floor_bound base_ms floor_share_ratio best_stock_ratio footprint_bytes in_cache
overhead_share_ratio kernels operators_left count_elementwise count_reduction count_softmax count_norm count_scan
count_pool count_conv count_matmul count_noop count_dead is_training has_state_updates wrapper
graph_gain_ratio dispatch_ms compute_capability count_epilogue count_batch_norm count_attention count_recurrent count_linear_fold
count_masked_product count_layout_copy count_slice count_rewrite traffic_ratio merge_saving_ratio fusable_share_ratio"""
KERNEL = """kernel_kind rows row_length inner_length passes bytes transcendentals flops time_us share_ratio
bandwidth_gb_per_s bandwidth_share_ratio exp_share_ratio flops_share_ratio issue_share_ratio parallel_efficiency_ratio kernel_bound
vector_bits_used libm_calls spills gathers schedule_threads schedule_vector_bits schedule_unroll schedule_accumulators
schedule_block schedule_nontemporal schedule_split gpu_block gpu_rows gpu_num_warps gpu_num_stages gpu_split gpu_cluster
registers shared_bytes warps occupancy_ratio expected_bound fill_ratio
counted_us counted_launches counted_bound counted_traffic_ratio dram_throughput_pct l2_throughput_pct
l1_throughput_pct sm_throughput_pct achieved_occupancy_pct issue_pct eligible_warps tensor_pct special_function_pct
l1_hit_pct l2_hit_pct load_use_pct store_use_pct load_sectors store_sectors active_lanes divergent_branch_pct waves
dram_bytes local_bytes shared_conflict_ratio top_stall top_stall_pct memory_stall_pct barrier_stall_pct
occupancy_limiter access_bits global_accesses async_copies matrix_instructions atomics barriers local_accesses
special_functions index_divisions data_bits shared_bank_ways"""
OPERATOR = """op op_family time_us share_ratio expected_share_ratio conv_transposed conv_groups conv_channels conv_taps
conv_stride product_rows product_columns product_depth"""


def test_the_vocabulary_is_what_gates_may_use():
    assert set(names("program")) == set(PROGRAM.split())
    assert set(names("kernel")) == set(KERNEL.split())
    assert set(names("operator")) == set(OPERATOR.split())
    assert set(names()) == {*PROGRAM.split(), *KERNEL.split(), *OPERATOR.split()}


def test_units_end_the_names():
    for name, entry in CATALOG.items():
        for ending, unit in (
            ("_ms", "ms"),
            ("_us", "us"),
            ("_gb_per_s", "GB/s"),
            ("_bytes", "bytes"),
            ("_pct", "%"),
        ):
            assert not name.endswith(ending) or entry.unit == unit, name
        assert entry.meaning


def test_measured_facts_come_from_a_clock():
    assert {"base_ms", "time_us", "kernel_bound", "parallel_efficiency_ratio"} <= set(measured())
    assert {"dram_throughput_pct", "counted_bound", "top_stall"} <= set(measured()), "or from a counter"
    assert {"floor_ms", "rows", "spills", "op", "expected_bound", "access_bits"}.isdisjoint(measured())


def test_closed_vocabularies():
    assert vocabularies()["kernel_bound"] == ("memory", "compute", "latency", "overhead")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", 1.5),
        ("rows", True),
        ("rows", -1),
        ("in_cache", 1),
        ("kernel_kind", "spiral"),
        ("op", 3),
        ("time_us", -0.1),
    ],
)
def test_values_outside_the_declared_type_or_range_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        fact(name, value)


def test_unknown_names_are_refused_and_unknown_values_left_out():
    with pytest.raises(KeyError):
        fact("coolness", 11)
    assert list(facts_of({"rows": None})) == []
    assert fact("rows", None).value is None
