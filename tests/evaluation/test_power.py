"""Whether a family's gate proves anything is found out once, and told beside it."""

import pytest
import torch

from kernelskill.evaluation import correctness, power
from kernelskill.evaluation.correctness import Pool, allowance
from kernelskill.evaluation.power import has_power
from kernelskill.records import Precision

ALLOWED = allowance(torch.float32, Precision.MATCH, 1)


def pool(values):
    twin = values.double()
    return Pool([], [values], [twin])


def test_a_gate_on_varied_results_refuses_every_wrong_answer():
    assert has_power(pool(torch.randn(64, 64)), [torch.randn(64, 64)], ALLOWED) == ""


def test_without_other_results_the_rest_is_tried():
    assert has_power(pool(torch.zeros(64, 64)), [], ALLOWED) == "zeros"
    assert has_power(pool(torch.full((64, 64), 3.0)), [], ALLOWED) == "the mean"


def test_a_gate_that_overlooks_single_elements_has_no_power():
    values = 1e6 + torch.randn(100, 100)
    loose = allowance(torch.float32, Precision.REDUCED, 1)
    assert has_power(pool(values), [values.flip(0)], loose) != ""


def test_whole_numbers_prove_nothing_where_they_are_always_the_same():
    counts = torch.arange(16)
    same = Pool([], [counts], [counts])
    assert has_power(same, [counts.clone()], ALLOWED) == "the result of other inputs"
    assert has_power(same, [], ALLOWED) == ""
    assert has_power(same, [counts.flip(0)], ALLOWED) == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.complex64, torch.int32])
def test_widened_results_hold_the_same_values(dtype):
    values = (torch.randn(8) * 4).to(dtype)
    wide = correctness.widened(values)
    assert torch.equal(wide.to(dtype), values)
    assert wide.dtype in (torch.float64, torch.complex128, torch.int32)


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(power, "SAMPLE", 1 << 12)
    monkeypatch.setattr(power, "STRETCHES", 16)


def counted(monkeypatch):
    """Elements of the results that are held against the gates, from now on."""
    seen, judge = [], power.judge

    def watched(pool, *args):
        seen.append(sum(item.numel() for item in pool.eager))
        return judge(pool, *args)

    monkeypatch.setattr(power, "judge", watched)
    return seen


def test_of_huge_results_a_bounded_number_of_elements_tells_that_a_gate_has_power(small_sample, monkeypatch):
    seen = counted(monkeypatch)
    values = torch.randn(400, 1000)
    assert has_power(pool(values), [values.flip(0)], ALLOWED) == ""
    assert seen == [1 << 12] * 4


def test_a_sample_lies_in_stretches_all_over_the_result(small_sample):
    places = power._sampled(torch.arange(160_000).view(400, 400)).view(16, 256)
    assert torch.equal(places[:, 0], torch.arange(0, 160_000, 10_000))
    assert bool((places.diff(dim=1) == 1).all())


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_what_would_pass_in_a_sample_is_tried_on_the_whole(small_sample, constant, monkeypatch):
    seen = counted(monkeypatch)
    values = torch.full((400, 1000), constant)
    expected = "the mean" if constant else "zeros"
    assert has_power(pool(values), [], ALLOWED) == expected
    values.view(-1)[9_000:9_500] = torch.randn(500)  # between two stretches
    assert has_power(pool(values), [], ALLOWED) == ""
    assert 400_000 in seen
