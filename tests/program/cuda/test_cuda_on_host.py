"""What is printed computes what it is to compute: kernels run on the CPU, against float64."""

import shutil

import clustered
import on_host
import pytest
import torch

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="compiles kernels for the CPU")

LIMITS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""Largest root mean square error, relative to that of the result."""
KEPT = clustered.forward("x", "torch.softmax(torch.tanh(x), -1)")
EXPONENTIALS = clustered.forward("x", "x.exp() / x.exp().sum(-1, keepdim=True)")
BESIDE = clustered.forward("x", "torch.softmax(x, -1) * x.mean(-1, keepdim=True)")
EMPTY, EVEN, ODD = (3, 150), (2, 1024), (2, 4001)
"""Shapes of which whole warps get nothing, all threads get equally much, no access is wide."""


def check(forms, due):
    finite = due.nan_to_num()
    for found in forms:
        assert torch.equal(found.isnan(), due.isnan())
        error = (found.double().nan_to_num() - finite).square().mean().sqrt() / finite.square().mean().sqrt()
        assert error <= LIMITS[found.dtype], error.item()


def numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        pytest.param(clustered.SOFTMAX, EMPTY, id="softmax-empty"),
        pytest.param(clustered.SOFTMAX, EVEN, id="softmax-even"),
        pytest.param(clustered.LOG_SOFTMAX, ODD, id="log-softmax"),
        pytest.param(clustered.SCALED, EMPTY, id="extremes"),
        pytest.param(KEPT, ODD, id="kept"),
        pytest.param(EXPONENTIALS, EVEN, id="exponentials"),
        pytest.param(BESIDE, EMPTY, id="beside"),
    ],
)
def test_float32(source, shape, tmp_path):
    check(*on_host.run(source, [numbers(*shape)], tmp_path, 4, num_warps=2))


def test_half_precision(tmp_path):
    check(*on_host.run(clustered.RMS, [numbers(2, 1000, dtype=torch.bfloat16)], tmp_path, 2, num_warps=2))


def test_a_mask_beside_the_row(tmp_path):
    x = numbers(2, 999, dtype=torch.float16)
    check(*on_host.run(clustered.MASKED, [x, x > 0.5], tmp_path, 2, num_warps=2))


def test_rows_that_are_not_finite(tmp_path):
    x = numbers(9, 400)
    x[0], x[1, 77], x[2, 5], x[3, 9], x[4] = -torch.inf, torch.inf, torch.nan, -torch.inf, 3e38
    x[5, :300], x[6, 8], x[6, 300], x[7, 0] = -torch.inf, torch.nan, torch.inf, -3e38
    x[8] = torch.nan
    check(*on_host.run(clustered.SOFTMAX, [x], tmp_path, 4, num_warps=2))


def test_a_maximum_that_comes_last_and_one_that_comes_first(tmp_path):
    up = torch.linspace(-90, 90, 2000).repeat(2, 1)
    up[1] = up[1].flip(0)
    check(*on_host.run(clustered.SOFTMAX, [up], tmp_path, 2, num_warps=1))
