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
    model = Apply(function)
    floor = floor_of(workload(captured(model, *args)), ceilings)
    best = float("inf")
    with torch.no_grad():
        for _ in range(50):
            began = time.perf_counter()
            model(*args)
            best = min(best, time.perf_counter() - began)
    # Twice, because ceilings and times are taken minutes apart on machines that others share.
    assert floor.floor_ms <= 2 * 1e3 * best
