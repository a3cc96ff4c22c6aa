"""Scans and poolings in the interpreter, in all the forms that the CPU printer is tested with, and shared rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu_cases import check, fused, job, unused, worked
from small_programs import Case
from template_cases import cases
from test_templates_pool import POOLS
from test_templates_scan import SCANS, exclusive_after

LONG = torch.randn(3, 700)
CHOSEN: dict[str, tuple[Any, ...]] = {
    "parts": (lambda x: x.cumsum(1), LONG), "parts_reverse": (lambda x: x.flip(1).cumsum(1).flip(1), LONG),
    "parts_exclusive": (lambda x: exclusive_after(x, 1), LONG), "parts_product": (lambda x: x.cumprod(1), 1 + LONG * 0.1),
    "parts_strided": (lambda x: x.cumsum(0), LONG.T.contiguous()), "loop": (lambda x: x.cumsum(1), LONG),
    "loop_ahead": (lambda x: x.cumsum(1), LONG),
    "loop_reverse": (lambda x: x.flip(1).cumsum(1).flip(1), LONG), "beside": (lambda x: x.cumsum(1), LONG[:, :50].contiguous()),
}  # fmt: skip
GPU: dict[str, dict[str, Any]] = {
    f"scan_{name}": {"block": 32, "split": 5} if "parts" in name else {"block": 32} if "loop" in name else {"rows": 2}
    for name in CHOSEN
}  # fmt: skip
GPU["scan_loop_ahead"]["num_stages"] = 2
GPU["pool_mean_11"] = {"num_stages": 2}
SLOW = {"tiles", "tiles_3", "tiles_mean", "even"}
CASES = cases("scan", {**SCANS, **CHOSEN}) + cases("pool", {k: v for k, v in POOLS.items() if k not in SLOW})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    fused(CASES, GPU)
    return worked("interpret", [job(case) for case in CASES], tmp_path_factory.mktemp("templates"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_templates_are_as_accurate_as_eager(results: dict[str, Any], case: Case) -> None:
    assert unused(job(case)["source"]) == []
    check(case, results[case.name], slack=24.0)  # the CPU accumulates scans in double, a GPU does not
