"""Nothing that torch does here may be faster than the floor says is possible."""

import shutil
import time

import pytest
import torch
from hand_graphs import captured, workload
from torch import nn

from kernelskill.floor import floor_of, load_ceilings

pytestmark = [
    pytest.mark.timing,
    pytest.mark.skipif(shutil.which("g++") is None, reason="measuring needs g++"),
]

LENIENCE = 2.0
"""Ceilings and times are taken minutes apart on machines that others share."""


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.fixture(scope="module")
def ceilings(tmp_path_factory):
    return load_ceilings(tmp_path_factory.mktemp("ceilings"), torch.get_num_threads())


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (torch.matmul, [(1024, 1024), (1024, 1024)]),
        (torch.relu, [(256, 1024)]),
        (torch.sum, [(256, 1024)]),
        (torch.sum, [(4096, 4096)]),
        (torch.clone, [(2048, 2048)]),
        (torch.exp, [(256, 1024)]),
        (torch.relu, [(8,)]),
    ],
    ids=["product", "map in cache", "sum in cache", "sum", "copy", "exp", "tiny"],
)
def test_torch_is_never_faster_than_the_floor(ceilings, function, shapes):
    args = [torch.randn(shape) for shape in shapes]
    floor = floor_of(workload(captured(Apply(function), *args)), ceilings)
    assert floor.floor_ms <= LENIENCE * best_ms(function, args)


@pytest.mark.parametrize(
    ("written", "folded", "shapes"),
    [
        (lambda x, w: (x @ w).sum(1), lambda x, w: x @ w.sum(1), [(1024, 512), (512, 2048)]),
        (lambda x, a, b: x @ a @ b, lambda x, a, b: x @ (a @ b), [(2048, 64), (64, 1024), (1024, 16)]),
        (lambda x, a, b: x @ a + x @ b, lambda x, a, b: x @ (a + b), [(1024, 256), (256, 512), (256, 512)]),
        (lambda a, b: torch.diag(a) @ b, lambda a, b: a[:, None] * b, [(1024,), (1024, 512)]),
        (
            lambda x, w: torch.conv2d(x, w).mean((2, 3)),
            lambda x, w: torch.conv2d(x, w.sum((2, 3), keepdim=True) / w[0, 0].numel()).mean((2, 3)),
            [(8, 16, 64, 64), (64, 16, 3, 3)],
        ),
    ],
    ids=[
        "sum through a product",
        "chain regrouped",
        "shared factor",
        "diagonal",
        "mean through a convolution",
    ],
)
def test_nor_is_what_linearity_allows(ceilings, written, folded, shapes):
    """The last one is faster still than a right fold, which keeps the borders."""
    args = [torch.randn(shape) for shape in shapes]
    floor = floor_of(workload(captured(Apply(written), *args)), ceilings)
    assert floor.floor_ms <= LENIENCE * best_ms(folded, args)


def best_ms(function, args):
    best = float("inf")
    with torch.no_grad():
        for _ in range(50):
            began = time.perf_counter()
            function(*args)
            best = min(best, time.perf_counter() - began)
    return 1e3 * best
