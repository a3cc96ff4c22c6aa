"""Pooling: windows, strides, borders and counts as torch defines them."""

from __future__ import annotations

import pytest
import torch
from small_programs import Computes, check, compiled, run
from template_cases import TemplateCase, cases
from torch.nn import functional as F

draw = torch.randn
LINE, PLANE, VOLUME = draw(2, 3, 57), draw(2, 3, 19, 23), draw(2, 3, 7, 9, 21)
LONG, SCALE = draw(2, 2, 9001), draw(3, 1, 1)
HOLES = PLANE.clone()
HOLES[0, 0, 3, 4], HOLES[1, 2, 0, 0], HOLES[1, 1, 18, 22] = torch.nan, -torch.inf, torch.nan

POOLS = {
    "stride_2": (lambda x: F.max_pool2d(x, 3, 2, 1), PLANE), "stride_1": (lambda x: F.max_pool2d(x, 4, 1, 1), PLANE),
    "nan": (lambda x: F.max_pool2d(x, 3, 1, 1), HOLES), "nan_apart": (lambda x: F.max_pool2d(x, 2), HOLES),
    "ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), PLANE),
    "dilated": (lambda x: F.max_pool2d(x, 3, 2, 1, 2), PLANE),
    "oblong": (lambda x: F.max_pool2d(x, (2, 5), (3, 1), (1, 2)), PLANE),
    "stride_3": (lambda x: F.max_pool2d(x, 3), PLANE), "gaps": (lambda x: F.max_pool2d(x, 3, 5, 1), PLANE),
    "mean": (lambda x: F.avg_pool2d(x, 3, 2, 1), PLANE),
    "mean_inside": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), PLANE),
    "mean_ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), PLANE),
    "mean_ceil_inside": (lambda x: F.avg_pool2d(x, (3, 4), (2, 3), 1, True, False), PLANE),
    "divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), PLANE),
    "mean_11": (lambda x: F.avg_pool2d(x, 11, 11), draw(2, 2, 40, 45)),
    "line": (lambda x: F.max_pool1d(x, 8, 1, 4, 3), LINE), "line_mean": (lambda x: F.avg_pool1d(x, 8, 1, 4), LINE),
    "line_mean_inside": (lambda x: F.avg_pool1d(x, 4, 2, 1, count_include_pad=False), LINE),
    "tiles": (lambda x: F.max_pool1d(x, 8, 1, 4, 3), LONG), "tiles_3": (lambda x: F.avg_pool1d(x, 7, 3, 2), LONG),
    "tiles_mean": (lambda x: F.avg_pool1d(x, 5, 2, 2, count_include_pad=False), LONG),
    "volume": (lambda x: F.max_pool3d(x, 3, 2, 1), VOLUME),
    "volume_dilated": (lambda x: F.max_pool3d(x, 2, 1, 1, 2), VOLUME),
    "volume_mean": (lambda x: F.avg_pool3d(x, 3, 2, 1), VOLUME),
    "volume_oblong": (lambda x: F.avg_pool3d(x, (2, 3, 4), (1, 2, 2), (0, 1, 2), True, False), VOLUME),
    "between": (lambda x, w: F.max_pool2d(F.relu(x * 2 + w), 3, 2, 1) * w, PLANE, SCALE),
    "between_apart": (lambda x, w: (F.avg_pool2d(x.tanh(), 2) * w).sigmoid() + 1, PLANE, SCALE),
    "tiny": (lambda x: F.max_pool2d(x, 2), draw(3, 5, 5, 3)), "one_plane": (lambda x: F.max_pool2d(x, 3, 1), PLANE[0]),
    "part": (lambda x: F.max_pool2d(x[:, :, 1:, 2:], 3, 2), PLANE), "even": (lambda x: F.max_pool2d(x, 2), draw(2, 64, 64)),
}  # fmt: skip


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    return compiled(cases("pool", POOLS), tmp_path_factory.mktemp("pools"))


@pytest.mark.parametrize("name", POOLS)
def test_a_pooling_is_as_accurate_as_eager(pools, name):
    case, library = pools[f"pool_{name}"]
    check(case, library)


def test_a_maximum_is_exact(pools):
    for name in ("stride_2", "dilated", "volume", "tiles"):
        case, library = pools[f"pool_{name}"]
        assert torch.equal(run(case, library)[0][0], case.model(*case.inputs)), name


def test_neighbours_are_taken_along(pools):
    assert pools["pool_between"][0].left == []
    assert pools["pool_between_apart"][0].left == []


def test_costly_work_is_not_repeated_in_overlapping_windows():
    case = TemplateCase("pool_costly", Computes(lambda x: F.max_pool2d(x.tanh(), 3, 1)), [PLANE])
    case.fuse()
    assert case.left == ["aten.tanh.default"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2),
        lambda x: F.max_pool2d(x.half(), 2),
    ],
    ids=["indices", "channels-last", "half"],
)
def test_what_the_kernel_does_not_do_is_left_to_the_library(function):
    from small_programs import export

    from kernelskill.program.program import Program
    from kernelskill.program.templates.pool_sites import pool_sites

    assert pool_sites(Program.from_graph(export(Computes(function), [PLANE]))) == []
