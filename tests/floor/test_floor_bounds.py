"""Floors by hand arithmetic."""

from itertools import pairwise

import pytest
from hand_graphs import graph, node, spec, workload

from kernelskill.floor import estimate_text, floor_of, nothing_to_gain
from kernelskill.records import Baselines, Ceilings, Timing
from kernelskill.records.facts import Floor

MACHINE = Ceilings(
    device="round numbers",
    threads=2,
    bandwidth_gb_per_s={"1000000": 100.0, "100000000": 10.0},
    read_gb_per_s={"1000000": 200.0, "100000000": 20.0},
    write_gb_per_s={"1000000": 50.0, "100000000": 5.0},
    fp32_gflops=100.0,
    exp_gops=2.0,
    parallel_us=5.0,
    call_us=1.0,
    operator_us=1.5,
    measured_on="2026-01-01",
    cache_bytes=4_000_000,
)


def floor(captured, **kwargs):
    return floor_of(workload(captured, **kwargs), MACHINE)


def relu(x, name="y"):
    return node(name, "aten.relu.default", "x", out=x)


def test_a_map_reads_and_writes_each_element_once():
    x = spec(1000, 100)
    found = floor(graph({"x": x}, [relu(x)], ["y"]))
    assert found.bytes_min == 2 * 400_000
    assert found.memory_ms == pytest.approx(0.8e6 / 100e9 * 1e3)
    assert found.overhead_ms == pytest.approx(0.001)
    assert found.floor_ms == pytest.approx(max(found.memory_ms, found.compute_ms) + found.overhead_ms)
    assert found.bound == "memory"


def test_intermediate_values_cost_nothing():
    x = spec(1000, 100)
    chain = [
        relu(x, "a"),
        node("b", "aten.sigmoid.default", "a", out=x),
        node("y", "aten.add.Tensor", "b", "x", out=x),
    ]
    found = floor(graph({"x": x}, chain, ["y"]))
    assert found.bytes_min == 800_000
    assert found.transcendentals == 100_000
    assert found.launches == 3
    assert set(found.per_node) == {"a", "b", "y"}


def test_dead_inputs_and_dead_nodes_do_not_count():
    x = spec(1000)
    dead = node("waste", "aten.exp.default", "unused", out=spec(9999))
    found = floor(graph({"x": x, "unused": spec(9999)}, [dead, relu(x)], ["y"]))
    assert found.bytes_min == 8000
    assert found.transcendentals == 0
    assert found.launches == 2, "eager dispatches dead operators too"


def test_an_expanded_input_counts_its_storage():
    wide = spec(64, 1000, stride=(0, 1))
    found = floor(graph({"x": wide}, [relu(spec(64, 1000))], ["y"]))
    assert found.bytes_min == 4 * (1000 + 64_000)


def test_gaps_between_elements_are_not_read():
    column = spec(100, 8, stride=(64, 1))
    assert floor(graph({"x": column}, [relu(spec(100, 8))], ["y"])).bytes_min == 2 * 3200


def test_only_the_slices_that_are_used_are_read():
    x, part = spec(100, 10), spec(100, 2)
    slices = [
        node("a", "aten.slice.Tensor", "x", 1, 0, 2, out=spec(100, 2, stride=(10, 1))),
        node("b", "aten.slice.Tensor", "x", 1, 1, 3, out=spec(100, 2, stride=(10, 1))),
    ]
    found = floor(graph({"x": x}, [*slices, node("y", "aten.add.Tensor", "a", "b", out=part)], ["y"]))
    assert found.bytes_min == 4 * (300 + 200), "columns 0, 1, 2 are read; two columns are written"


def test_a_strided_pointwise_convolution_skips_what_lies_between():
    x, weight, out = spec(1, 4, 8, 8), spec(2, 4, 1, 1), spec(1, 2, 4, 4)
    call = node(
        "y", "aten.convolution.default", "x", "w", None, (2, 2), (0, 0), (1, 1), False, (0, 0), 1, out=out
    )
    found = floor(graph({"x": x}, [call], ["y"], state={"w": weight}))
    assert found.bytes_min == 4 * (4 * 16 + 8 + 32)
    assert found.flops == 2 * 32 * 4


def test_tied_weights_are_read_once():
    x, w = spec(4, 8), spec(8, 8)
    nodes = [node("a", "aten.mm.default", "x", "u", out=x), node("y", "aten.mm.default", "a", "v", out=x)]
    apart = floor(graph({"x": x}, nodes, ["y"], state={"u": w, "v": w}))
    tied = floor(graph({"x": x}, nodes, ["y"], state={"u": w, "v": w}), tied={"v": "u"})
    assert apart.bytes_min - tied.bytes_min == w.nbytes


def test_new_buffer_values_are_written_and_returned_inputs_are_not():
    x = spec(100)
    nodes = [node("count", "aten.add.Tensor", "steps", 1, out=spec(1, dtype="int64"))]
    found = floor(
        graph({"x": x}, nodes, ["x"], state={"steps": spec(1, dtype="int64")}, updates={"steps": "count"})
    )
    assert found.bytes_min == 16


def test_a_table_may_be_read_in_one_place_only():
    table, index, out = spec(1000, 64), spec(10, dtype="int64"), spec(10, 64)
    found = floor(
        graph(
            {"i": index}, [node("y", "aten.embedding.default", "t", "i", out=out)], ["y"], state={"t": table}
        )
    )
    assert found.bytes_min <= 80 + 4 * (64 + 640)


def test_a_big_product_is_bound_by_arithmetic():
    n = 1000
    square = spec(n, n)
    found = floor(
        graph({"a": square, "b": square}, [node("y", "aten.mm.default", "a", "b", out=square)], ["y"])
    )
    assert found.flops == 2 * n**3
    assert found.compute_ms == pytest.approx(2e9 / 100e9 * 1e3)
    assert found.bound == "compute"


def test_arithmetic_and_transcendentals_overlap():
    x = spec(1_000_000)
    found = floor(graph({"x": x}, [node("y", "aten.tanh.default", "x", out=x)], ["y"]))
    assert found.compute_ms == pytest.approx(1e6 / 2e9 * 1e3)


def test_functions_of_one_value_are_evaluated_once():
    x = spec(1000)
    nested = [
        node("a", "aten.exp.default", "x", out=x),
        node("b", "aten.log1p.default", "a", out=x),
        node("c", "aten.where.self", "x", "b", "x", out=x),
        node("y", "aten.tanh.default", "c", out=x),
    ]
    assert floor(graph({"x": x}, nested, ["y"])).transcendentals == 1000
    two = [*nested[:2], node("y", "aten.tanh.default", "x", out=x)]
    assert floor(graph({"x": x}, two, ["y", "b"])).transcendentals == 2000


def test_bandwidth_is_interpolated_at_the_footprint_and_takes_the_cheaper_model():
    assert MACHINE.traffic_us(0, 1_000_000) == pytest.approx(20.0)
    assert MACHINE.traffic_us(1_000_000, 0) == pytest.approx(5.0)
    assert MACHINE.traffic_us(5_000_000, 5_000_000) == pytest.approx(1e7 / 55e9 * 1e6), (
        "halfway on the log scale"
    )
    assert MACHINE.traffic_us(100, 0) == pytest.approx(100 / 200e9 * 1e6), "flat below what was measured"
    assert MACHINE.traffic_us(750_000, 250_000) == pytest.approx(5.0 + 2.5)


def test_a_gpu_cannot_read_first_what_its_cache_does_not_hold():
    gpu = MACHINE.model_copy(update={"compute_capability": 90, "write_gb_per_s": {"1000000": 500.0}})
    small, large = 1_000_000, 5_000_000
    copied = gpu.model_copy(update={"read_gb_per_s": {}, "write_gb_per_s": {}})
    assert gpu.traffic_us(small, small) < copied.traffic_us(small, small)
    assert gpu.traffic_us(large, large) == copied.traffic_us(large, large)


def test_without_a_graph_only_results_count():
    plain = workload(graph({"x": spec(100)}, [relu(spec(100))], ["y"]))
    found = floor_of(plain.model_copy(update={"graph": None}), MACHINE)
    assert found.bytes_min == 400
    assert found.floor_ms > 0


def test_an_unknown_operator_needs_no_arithmetic():
    x = spec(50)
    found = floor(graph({"x": x}, [node("y", "aten.brand_new.default", "x", out=x)], ["y"]))
    assert (found.flops, found.bytes_min) == (0, 400)


def baselines(best_ms: float) -> Baselines:
    timing = Timing(arm="eager", median_ms=best_ms, p10_ms=best_ms, p90_ms=best_ms, samples_ms=((best_ms,),))
    return Baselines(timings=(timing,), best_arm="eager", noise_band_ratio=0.02, null_ms=0.0)


@pytest.mark.parametrize(("best_ms", "expected"), [(1.04, True), (0.9, True), (1.06, False)])
def test_nothing_to_gain_within_five_percent_of_the_floor(best_ms, expected):
    at_one = Floor(
        bytes_min=8, flops=0, transcendentals=0, launches=1, memory_ms=0.9, compute_ms=0, overhead_ms=0.1, floor_ms=1.0,
        bound="memory",
    )  # fmt: skip
    assert nothing_to_gain(at_one, baselines(best_ms)) is expected
    text = estimate_text(at_one, baselines(best_ms))
    assert ("nothing to gain" in text) is expected


def test_what_nobody_looks_at_need_not_be_computed():
    x = spec(100, 10)
    nodes = [relu(x, "a"), node("y", "aten.select.int", "a", 1, 0, out=spec(100, stride=(10,)))]
    found = floor(graph({"x": x}, nodes, ["y"]))
    assert found.bytes_min == 400 + 400
    assert found.flops == 100


def test_of_a_product_only_the_last_row_counts():
    x, w, out = spec(50, 64), spec(64, 32), spec(50, 32)
    nodes = [
        node("a", "aten.mm.default", "x", "w", out=out),
        node("y", "aten.select.int", "a", 0, 49, out=spec(32)),
    ]
    assert floor(graph({"x": x}, nodes, ["y"], state={"w": w})).flops == 2 * 64 * 32


def test_a_long_chain_is_no_problem():
    x = spec(10)
    names = ["x", *(f"n{k}" for k in range(3000))]
    nodes = [node(b, "aten.sin.default", a, out=x) for a, b in pairwise(names)]
    assert floor(graph({"x": x}, nodes, [names[-1]])).bytes_min == 80
