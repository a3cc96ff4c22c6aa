"""Poolings whose programs walk down a strip of results: as torch's, compiled without spills, and only where it pays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_cases import check, fused, job, unused, worked
from small_programs import Case
from template_cases import cases

from kernelskill.program.templates.window import Window
from kernelskill.program.triton.sliding import Walk

draw = torch.randn
PLANE, WIDE, VOLUME, SCALE = draw(2, 3, 19, 23), draw(1, 2, 37, 150), draw(2, 3, 7, 9, 21), draw(3, 1, 1)
SMALL = draw(1, 1, 20, 70)
HOLES = PLANE.clone()
HOLES[0, 0, 3, 4], HOLES[1, 2, 0, 0], HOLES[1, 1, 18, 22] = torch.nan, -torch.inf, torch.nan
EMPTY = torch.full((1, 2, 12, 33), -torch.inf)

WALKS: dict[str, tuple[Any, ...]] = {
    "square": (lambda x: F.max_pool2d(x, 4, 1, 1), PLANE), "strips": (lambda x: F.max_pool2d(x, 4, 1, 1), WIDE),
    "inside": (lambda x: F.max_pool2d(x, 3, 1), PLANE), "inside_strips": (lambda x: F.max_pool2d(x, 2, 1), WIDE),
    "nan": (lambda x: F.max_pool2d(x, 3, 1, 1), HOLES), "nan_mean": (lambda x: F.avg_pool2d(x, 3, 1, 1), HOLES),
    "infinite": (lambda x: F.max_pool2d(x, 3, 1, 1), EMPTY),
    "one_strip": (lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), PLANE[:, :, :8].contiguous()),
    "dilated": (lambda x: F.max_pool2d(x, 3, 1, 1, 2), WIDE),
    "dilated_apart": (lambda x: F.max_pool2d(x, (4, 2), (1, 2), (1, 0), (3, 4)), WIDE),
    "common_step": (lambda x: F.max_pool2d(x, 3, 2, 1, 2), WIDE), "stride": (lambda x: F.max_pool2d(x, 5, 2, 2), WIDE),
    "stride_ceil": (lambda x: F.max_pool2d(x, 7, (3, 2), 3, ceil_mode=True), WIDE),
    "oblong": (lambda x: F.max_pool2d(x, (5, 1), 1, (2, 0)), PLANE), "apart_in_rows": (lambda x: F.max_pool2d(x, 3, (1, 3)), WIDE),
    "wide_window": (lambda x: F.max_pool2d(x, (3, 35), 1, (1, 7)), SMALL), "large": (lambda x: F.avg_pool2d(x, 11, 1, 5), SMALL),
    "mean": (lambda x: F.avg_pool2d(x, 3, 1, 1), WIDE), "mean_inside": (lambda x: F.avg_pool2d(x, 4, 1, 2, False, False), WIDE),
    "mean_ceil": (lambda x: F.avg_pool2d(x, 5, 2, 2, True, False), WIDE), "divisor": (lambda x: F.avg_pool2d(x, 2, 1, divisor_override=3), PLANE),
    "volume": (lambda x: F.max_pool3d(x, 3, 1, 1), VOLUME), "volume_mean": (lambda x: F.avg_pool3d(x, 3, 1, 1, False, False), VOLUME),
    "depth": (lambda x: F.max_pool3d(x, (4, 2, 2), (1, 2, 2), (2, 0, 1)), VOLUME),
    "depth_mean": (lambda x: F.avg_pool3d(x, (3, 1, 2), (1, 1, 2), (1, 0, 0), False, False), VOLUME),
    "between": (lambda x, w: F.max_pool2d(F.relu(x * 2 + w), 3, 1, 1) * w, PLANE, SCALE),
    "beside": (lambda x, y: F.avg_pool2d(x, 3, 1, 1) * y + x, PLANE, draw(3, 19, 23)),
    "part": (lambda x: F.max_pool2d(x[:, :, 1:, 2:], 3, 1), PLANE), "narrow": (lambda x: F.max_pool2d(x, 3, 1, 1), draw(3, 5, 20, 3)),
    "column": (lambda x: F.max_pool2d(x, (3, 1), 1), draw(2, 3, 40, 1)), "plane": (lambda x: F.max_pool2d(x, 3, 1), PLANE[0]),
}  # fmt: skip
WALKED = cases("pool", WALKS)
GPU: dict[str, dict[str, Any]] = {
    "pool_strips": {"rows": 16}, "pool_dilated": {"rows": 32, "block": 32}, "pool_mean_inside": {"rows": 4, "block": 64},
    "pool_between": {"block": 256}, "pool_volume": {"rows": 4}, "pool_inside_strips": {"num_warps": 1},
    "pool_narrow": {"block": 16},
}  # fmt: skip

DIRECT: dict[str, tuple[Any, ...]] = {
    "apart": (lambda x: F.max_pool2d(x, 3), PLANE), "gaps": (lambda x: F.max_pool2d(x, 3, 5, 1), PLANE),
    "half": (lambda x: F.max_pool2d(x, 3, 2, 1), WIDE), "line": (lambda x: F.max_pool1d(x, 8, 1, 4), PLANE[0]),
    "along_rows": (lambda x: F.max_pool2d(x, (1, 5), 1, (0, 2)), PLANE), "one_result": (lambda x: F.max_pool2d(x, 19, 1), PLANE),
    "far": (lambda x: F.max_pool2d(x, 2, 1, 0, (30, 1)), WIDE), "no_strip": (lambda x: F.max_pool2d(x, 3, 1), PLANE),
    "large_block": (lambda x: F.max_pool2d(x, 3, 1), PLANE), "long_text": (lambda x: F.max_pool2d(x, 21, 1), WIDE),
}  # fmt: skip
NOT_WALKED = cases("pool", DIRECT)
CHOSEN = {"pool_no_strip": {"rows": 1}, "pool_large_block": {"block": 2048}}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    fused(WALKED, GPU)
    return worked("interpret", [job(case) for case in WALKED], tmp_path_factory.mktemp("sliding"))


@pytest.mark.parametrize("case", WALKED, ids=lambda case: case.name)
def test_walks_are_as_accurate_as_eager(results: dict[str, Any], case: Case) -> None:
    source = job(case)["source"]
    assert "parts = ()" in source
    assert unused(source) == []
    check(case, results[case.name])


def test_maxima_are_exact_and_keep_what_is_not_a_number(results: dict[str, Any]) -> None:
    for case in WALKED:
        if case.name in ("pool_strips", "pool_nan", "pool_infinite", "pool_common_step", "pool_depth"):
            (mine,), _ = results[case.name]
            assert torch.equal(mine.nan_to_num(nan=7.0), case.model(*case.inputs).nan_to_num(nan=7.0)), (
                case.name
            )


@pytest.fixture(scope="module")
def direct() -> dict[str, str]:
    fused(NOT_WALKED, CHOSEN)
    return {case.name: job(case)["source"] for case in NOT_WALKED}


@pytest.mark.parametrize("name", DIRECT)
def test_windows_that_gain_nothing_are_folded_one_by_one(direct: dict[str, str], name: str) -> None:
    assert "parts" not in direct[f"pool_{name}"]


def test_a_strip_loads_each_row_once() -> None:
    walk = Walk("h", Window(size=4, stride=1, padding=1, dilation=1, length=512, results=511), most=16)
    assert (walk.strips, walk.strip, walk.steps, walk.gain) == (32, 16, 19, 64 / 19)


def test_a_walk_skips_rows_that_no_window_reads() -> None:
    walk = Walk("h", Window(size=3, stride=2, padding=0, dilation=4, length=100, results=46), most=16)
    assert (walk.step, walk.stride, walk.dilation) == (2, 1, 2)
    assert (walk.strips, walk.strip, walk.steps) == (3, 16, 20)


COMPILED = cases("pool", {
    "walk_4": (lambda x: F.max_pool2d(x, 4, 1, 1), torch.empty(8, 16, 512, 512)),
    "walk_11": (lambda x: F.avg_pool2d(x, 11, 1, 5, count_include_pad=False), torch.empty(8, 16, 256, 256)),
    "walk_dilated": (lambda x: F.max_pool2d(x, 5, 1, 2, 3), torch.empty(8, 16, 256, 256)),
    "walk_stride": (lambda x: F.max_pool2d(x, 7, 2, 3), torch.empty(8, 16, 512, 512)),
    "walk_volume": (lambda x: F.max_pool3d(x, 3, 1, 1), torch.empty(2, 16, 32, 56, 56)),
    "walk_short": (lambda x: F.avg_pool2d(x, 3, 1, 1, False, False), torch.empty(8, 16, 7, 9)),
    "walk_beside": (lambda x, w: F.avg_pool2d(F.silu(x), 3, 1, 1) * w + x, torch.empty(4, 16, 128, 128), torch.empty(16, 1, 1)),
})  # fmt: skip

NEWEST = ("pool_walk_4", "pool_walk_volume", "pool_walk_short", "pool_walk_beside")
"""Those compiled for the other capabilities too."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    fused(COMPILED)
    jobs = [
        {**job(case), "capabilities": (80, 90, 100) if case.name in NEWEST else (90,)} for case in COMPILED
    ]
    return worked("compile", jobs, tmp_path_factory.mktemp("compiled"))


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_a_strip_stays_in_registers(used: dict[str, dict[str, int]], capability: int) -> None:
    mine = {name: usage for name, usage in used.items() if name.startswith(f"{capability} ")}
    assert len(mine) == (len(COMPILED) if capability == 90 else len(NEWEST))
    assert {name: usage for name, usage in mine.items() if usage["STACK"] or usage["LOCAL"]} == {}
    registers = {name.split()[1]: usage["REG"] for name, usage in mine.items()}
    assert max(count for name, count in registers.items() if name != "_pool_walk_11") <= 64
