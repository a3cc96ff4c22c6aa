"""Kernels of every kind compiled ahead of time: no register is spilled on any of the targets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_cases import fused, job, worked
from small_programs import Case, Computes
from template_cases import cases
from torch import nn

BF16 = torch.bfloat16


def table() -> list[Case]:
    functions: dict[str, tuple[Any, ...]] = {
        "map": (lambda x, y: F.gelu(x + y), torch.empty(64, 512), torch.empty(64, 1)),
        "map_functions": (
            lambda x: x.tanh() + x.expm1() + x.log1p() + x.round() + x.pow(1.7),
            torch.empty(4096),
        ),
        "map_half": (lambda x: F.mish(x), torch.empty(4096, dtype=BF16)),
        "map_across": (lambda x, y: x.t() + y, torch.empty(64, 128), torch.empty(128, 64)),
        "row": (lambda x: x.softmax(-1), torch.empty(64, 4096, dtype=BF16)),
        "row_longest": (lambda x: F.log_softmax(x, -1), torch.empty(300, 32768)),
        "row_loop": (lambda x: x.softmax(-1), torch.empty(300, 70000)),
        "row_ahead": (lambda x: x.softmax(-1), torch.empty(300, 70000)),
        "row_beside": (nn.LayerNorm(64), torch.empty(20000, 64)),
        "row_shared": (nn.LayerNorm(100_000), torch.empty(4, 100_000)),
        "channels": (nn.BatchNorm2d(32), torch.empty(16, 32, 28, 28)),
        "groups": (nn.GroupNorm(8, 64), torch.empty(8, 64, 28, 28)),
        "loss": (
            lambda x, y: F.cross_entropy(x, y),
            torch.empty(512, 1000),
            torch.zeros(512, dtype=torch.int64),
        ),
        "total": (lambda x, y: F.mse_loss(x, y), torch.empty(512, 2048), torch.empty(512, 2048)),
        "place": (lambda x: x.argmax(-1), torch.empty(64, 4096)),
        "strided": (lambda x: x.sum(1), torch.empty(16, 300, 256)),
        "strided_row": (lambda x: x.softmax(1), torch.empty(16, 128, 256)),
        "strided_shared": (lambda x: x.amax(0), torch.empty(5000, 256)),
    }
    found = [
        Case(name, function if isinstance(function, nn.Module) else Computes(function), list(inputs))
        for name, (function, *inputs) in functions.items()
    ]
    found += cases("scan", {
        "loop": (lambda x: x.cumsum(1), torch.empty(300, 40000)), "product": (lambda x: x.cumprod(1), torch.empty(300, 4000)),
        "strided": (lambda x: x.cumsum(1), torch.empty(64, 500, 256)), "shared": (lambda x: x.cumsum(0), torch.empty(400_000)),
        "reverse": (lambda x: x.flip(1).cumsum(1).flip(1), torch.empty(300, 4000)),
    })  # fmt: skip
    found += cases("pool", {
        "plane": (lambda x: F.max_pool2d(x, 3, 2, 1), torch.empty(8, 16, 56, 56)),
        "volume": (lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False), torch.empty(2, 4, 16, 28, 28)),
        "large": (lambda x: F.avg_pool2d(x, 11, 11), torch.empty(4, 8, 220, 220)),
    })  # fmt: skip
    return found


CASES = table()
AHEAD = {"row_ahead": {"block": 4096, "num_stages": 3}, "scan_strided": {"num_stages": 2}}
"""Schedules whose loops load ahead."""

NEWEST = ("map_half", "row_loop", "row_shared", "strided_shared", "scan_loop", "pool_plane")
"""Kernels compiled for the other capabilities too: one of each kind."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    fused(CASES, AHEAD)
    jobs = [{**job(case), "capabilities": (80, 90, 100) if case.name in NEWEST else (90,)} for case in CASES]
    return worked("compile", jobs, tmp_path_factory.mktemp("compiled"))


def test_loops_load_ahead_where_their_schedule_says_so(used: dict[str, dict[str, int]]) -> None:
    ahead = {
        name.removeprefix("90 _") for name, usage in used.items() if usage["AHEAD"] and name.startswith("90 ")
    }
    assert ahead == {"row_ahead_0", "scan_strided"}


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_no_register_is_spilled(used: dict[str, dict[str, int]], capability: int) -> None:
    mine = {name: usage for name, usage in used.items() if name.startswith(f"{capability} ")}
    assert len(mine) >= (len(CASES) if capability == 90 else len(NEWEST))
    assert {name: usage for name, usage in mine.items() if usage["STACK"] or usage["LOCAL"]} == {}
