"""The gates on values: honest errors pass, wrong results don't, and huge ones are looked at in pieces."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelskill.evaluation import correctness, errors_summed, ties
from kernelskill.evaluation.correctness import Pool, allowance, judge
from kernelskill.evaluation.power import has_power
from kernelskill.records import Graph, GraphInput, Node, Precision, Ref, TensorSpec

A = allowance(torch.float32, Precision.MATCH, 1)


def pool(twin, candidate, eager=None):
    eager = twin.to(candidate.dtype) if eager is None else eager
    return Pool([candidate], [eager], [twin])


@pytest.fixture
def truth():
    return torch.randn(64, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_one_rounding_passes(truth):
    assert judge(pool(truth, truth.float()), "task", "output", A).passed


@pytest.mark.parametrize(
    "wrong", [torch.zeros_like, lambda y: y.roll(1), lambda y: y * 1.00001, lambda y: -y]
)
def test_wrong_results_are_refused(truth, wrong):
    assert not judge(pool(truth, wrong(truth).float()), "task", "output", A).passed


def test_reduced_precision_meets_its_own_tier_only(truth):
    narrow = truth.bfloat16().float()
    assert not judge(pool(truth, narrow), "task", "output", A).passed
    assert judge(pool(truth, narrow), "task", "output", allowance(torch.float32, Precision.REDUCED, 1)).passed


@given(st.integers(0, 64 * 256 - 1))
@settings(max_examples=25, deadline=None)
def test_a_single_wrong_element_is_found(place):
    truth = torch.randn(64, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    mine = truth.float()
    mine.view(-1)[place] += 1e-2
    assert not judge(pool(truth, mine), "task", "output", A).passed


def test_a_corner_of_small_numbers_cannot_hide():
    truth = torch.ones(64, 256, dtype=torch.float64)
    truth[-1] = 1e-7
    mine = truth.float()
    mine[-1] = 0
    found = judge(pool(truth, mine), "task", "output", A)
    assert not found.passed
    assert "part" in found.note


@pytest.mark.parametrize("length", [256, 4096, 65536])
def test_blocked_sequential_sums_pass(length):
    rows = torch.randn(32, length, generator=torch.Generator().manual_seed(3))
    blocks = rows.view(32, -1, min(length, 4096))
    part = torch.zeros(32, blocks.shape[1])
    for place in range(blocks.shape[2]):
        part = part + blocks[:, :, place]
    while part.shape[1] > 1:
        part = part[:, ::2] + part[:, 1::2]
    truth = rows.double().sum(1)
    allowed = allowance(torch.float32, Precision.MATCH, length)
    assert judge(pool(truth, part[:, 0], rows.sum(1)), "task", "output", allowed).passed


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_values_stand_where_they_must(truth, value):
    mine = truth.float()
    mine[3, 4] = value
    assert not judge(pool(truth, mine, truth.float()), "task", "output", A).passed
    both = truth.clone()
    both[3, 4] = value
    assert judge(pool(both, both.float()), "task", "output", A).passed
    assert not judge(pool(both, truth.float(), both.float()), "task", "output", A).passed


def test_a_result_that_overflows_in_eager_only_may_be_finite():
    truth = torch.full((256,), 2.0, dtype=torch.float64)
    eager = truth.float()
    eager[0] = math.inf
    assert judge(pool(truth, truth.float(), eager), "task", "output", A).passed
    assert judge(pool(truth, eager.clone(), eager), "task", "output", A).passed


def test_nan_is_no_wildcard(truth):
    nothing = torch.full_like(truth, math.nan).float()
    assert not judge(pool(truth, nothing, truth.float()), "task", "output", A).passed


def test_integers_and_booleans_are_exact():
    due = torch.arange(10)
    assert judge(Pool([due.clone()], [due], [due]), "task", "output", A).passed
    assert not judge(Pool([due + (due == 3)], [due], [due]), "task", "output", A).passed
    flags = due > 4
    odd = flags.view(torch.uint8).clone()
    odd[9] = 255
    assert not judge(Pool([odd.view(torch.bool)], [flags], [flags]), "task", "output", A).passed


def test_complex_results_are_measured():
    truth = torch.randn(256, dtype=torch.complex128, generator=torch.Generator().manual_seed(4))
    assert judge(pool(truth, truth.to(torch.complex64)), "task", "output", A).passed
    assert not judge(pool(truth, truth.conj().to(torch.complex64)), "task", "output", A).passed


def test_power_is_missing_for_what_hardly_varies(truth):
    other = [truth.roll(1, 0).float()]
    assert has_power(pool(truth, truth.float()), other, A) == ""
    flat = torch.full((256,), 3.0, dtype=torch.float64)
    assert has_power(pool(flat, flat.float()), [flat.float()], A)
    nothing = torch.zeros(256, dtype=torch.float64)
    assert has_power(pool(nothing, nothing.float()), [nothing.float()], A) == "zeros"


def test_kernelbench_rule_refuses_a_constant_however_small_the_result():
    truth = torch.softmax(torch.rand(4, 65536, dtype=torch.float64), 1)
    zeros = torch.zeros(4, 65536)
    assert torch.allclose(zeros, truth.float(), atol=1e-4, rtol=1e-4)
    assert not correctness.allclose(pool(truth, zeros), "task", "output", 1e-4).passed
    assert correctness.allclose(pool(truth, truth.float()), "task", "output", 1e-4).passed


def test_pieces_give_what_one_pass_gives(monkeypatch, truth):
    mine = (truth * (1 + 1e-6)).float()
    whole = judge(pool(truth, mine), "task", "output", A)
    monkeypatch.setattr(errors_summed, "PIECE", 37)
    pieces = judge(pool(truth, mine), "task", "output", A)
    assert pieces.rms == pytest.approx(whole.rms)
    assert pieces.worst_abs == whole.worst_abs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.complex64])
def test_the_share_of_finite_elements_is_exact(monkeypatch, dtype):
    monkeypatch.setattr(correctness, "PIECE", 37)
    values = torch.full((1000,), 6e4).to(dtype)  # whose sum is infinite in half precision
    parts = 2000 if dtype is torch.complex64 else 1000
    assert correctness.finite_share([values]) == 1
    values[[3, 36, 37, 999]] = torch.tensor([math.nan, math.inf, -math.inf, math.nan]).to(dtype)
    assert correctness.finite_share([values]) == 1 - 4 / parts
    assert correctness.finite_share([torch.full((100,), 1e308, dtype=torch.float64)]) == 1
    assert correctness.finite_share([torch.arange(5), torch.empty(0)]) == 1


def test_near_ties_may_fall_either_way_as_often_as_eagers():
    exact = torch.arange(20_000)
    eager, mine, wrong = exact.clone(), exact.clone(), exact.clone()
    eager[:5] += 1
    mine[100:108] += 1
    wrong[:200] += 1
    assert ties.judge_positions(Pool([mine], [eager], [exact]), "task", "output").passed
    assert not ties.judge_positions(Pool([wrong], [eager], [exact]), "task", "output").passed
    assert not ties.judge_positions(Pool([exact - 1], [eager], [exact]), "task", "output").passed


def test_parts_looked_at_side_by_side_are_what_they_are_alone(monkeypatch):
    rng = torch.Generator().manual_seed(4)
    truth = torch.randn(64 * 100 + 7, dtype=torch.float64, generator=rng)
    mine, eager = (truth.float() + 1e-6 * torch.randn(truth.shape, generator=rng) for _ in range(2))
    together = list(errors_summed.tiles(mine, eager, truth))
    monkeypatch.setattr(errors_summed, "PIECE", 64)
    alone = list(errors_summed.tiles(mine, eager, truth))
    assert [part.count for part in together] == [part.count for part in alone] == [100] * 64 + [7]
    for one, other in zip(together, alone, strict=True):
        assert vars(one) == pytest.approx(vars(other), rel=1e-12)


def test_one_look_at_several_results_finds_what_single_looks_find():
    rng = torch.Generator().manual_seed(5)
    dues = [torch.randn(40, 50, generator=rng) for _ in range(6)]
    near = [due * (1 + 1e-7) for due in dues]
    assert correctness.all_roughly_equal(near, dues, 1e-5)
    for wrong in (1e-2, math.nan, math.inf):
        spoilt = [item.clone() for item in near]
        spoilt[3][7, 7] += wrong
        assert not correctness.all_roughly_equal(spoilt, dues, 1e-5)
    whole = [torch.arange(2000) for _ in range(2)]
    assert not correctness.all_roughly_equal(whole, whole, 1e-5), "integers are compared one by one"


def test_what_is_allowed_where_exponentials_overflow_is_gross_errors_only():
    allowed = correctness.overflow_allowance
    assert 1e-3 < allowed(torch.float32, Precision.MATCH, 4096) < 1e-2
    assert allowed(torch.float32, Precision.TF32, 64) > 1
    assert allowed(torch.bfloat16, Precision.MATCH, 64) > 1


@pytest.mark.parametrize(
    ("op", "weight", "rest", "longest"),
    [
        ("aten.conv2d.default", (32, 24, 3, 3), (), 24 * 9),
        (
            "aten.convolution.default",
            (32, 24, 3, 3),
            (None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
            24 * 9,
        ),
        ("aten.convolution.default", (24, 8, 3, 3), (None, (1, 1), (0, 0), (1, 1), True, (0, 0), 1), 24),
    ],
)
def test_a_convolution_sums_a_window_of_all_its_channels(op, weight, rest, longest):
    specs = [TensorSpec.contiguous(shape, "float32") for shape in ((1, 24, 8, 8), weight, (1, 32, 16, 16))]
    inputs = tuple(
        GraphInput(name=name, spec=spec, leaf=k)
        for k, (name, spec) in enumerate(zip("xw", specs[:2], strict=True))
    )
    node = Node(name="y", op=op, args=(Ref(node="x"), Ref(node="w"), *rest), outputs=(specs[2],))
    graph = Graph(
        inputs=inputs, state=(), nodes=(node,), outputs=(Ref(node="y"),), outputs_tree={"tensor": 0}
    )
    assert correctness.longest_sum(graph, 0, 0) == max(longest, *(max(spec.shape) for spec in specs[:2]))
