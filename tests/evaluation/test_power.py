"""Whether a family's gate proves anything is found out once, and told beside it."""

import pytest
import torch

from kernelskill.evaluation import correctness
from kernelskill.evaluation.correctness import Pool, allowance, has_power
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
