"""Poolings along rows by accesses of four elements: as torch's, in wide accesses without spills, only where they pay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_cases import check, fused, job, unused, worked
from small_programs import Case
from template_cases import cases

draw = torch.randn
ROWS, SCALE = draw(2, 3, 2052), draw(3, 1)
HOLES = ROWS.clone()
HOLES[0, 0, 3], HOLES[1, 2, 0], HOLES[1, 1, 2051] = torch.nan, -torch.inf, torch.nan
LINES: dict[str, tuple[Any, ...]] = {
    "dilated": (lambda x: F.max_pool1d(x, 8, 1, 4, 3), ROWS), "nan": (lambda x: F.max_pool1d(x, 5, 1, 2), HOLES),
    "inside": (lambda x: F.max_pool1d(x, 6, 1), ROWS), "apart": (lambda x: F.max_pool1d(x, 9, 2, 3), ROWS),
    "ceil": (lambda x: F.max_pool1d(x, 7, 2, 3, ceil_mode=True), ROWS), "mean": (lambda x: F.avg_pool1d(x, 8, 1, 4), ROWS),
    "mean_inside": (lambda x: F.avg_pool1d(x, 5, 1, 1, False, False), ROWS),
    "after": (lambda x, w: F.relu(F.max_pool1d(x, 5, 1, 1)) * w, ROWS, SCALE),
    "one_row": (lambda x: F.max_pool1d(x, 5, 1, 2), ROWS[:1, :1].contiguous()),
}  # fmt: skip
QUADS = cases("pool", LINES)
GPU: dict[str, dict[str, Any]] = {"pool_inside": {"block": 64}, "pool_mean": {"num_warps": 1}}

OTHER: dict[str, tuple[Any, ...]] = {
    "odd_row": (lambda x: F.max_pool1d(x, 8, 1, 4), draw(2, 3, 2049)), "short_row": (lambda x: F.max_pool1d(x, 8, 1, 4), draw(2, 3, 512)),
    "far": (lambda x: F.max_pool1d(x, 3, 1, 0, 9), ROWS),
    "steps": (lambda x: F.max_pool1d(x, 8, 4), ROWS), "planes": (lambda x: F.max_pool2d(x, (1, 5), 1, (0, 2)), ROWS),
    "pair": (lambda x: F.max_pool1d(x, 2, 1), ROWS),
}  # fmt: skip
NOT_QUADS = cases("pool", OTHER)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    fused(QUADS, GPU)
    return worked("interpret", [job(case) for case in QUADS], tmp_path_factory.mktemp("quads"))


@pytest.mark.parametrize("case", QUADS, ids=lambda case: case.name)
def test_they_are_as_accurate_as_eager(results: dict[str, Any], case: Case) -> None:
    source = job(case)["source"]
    assert "tl.split" in source
    assert unused(source) == []
    check(case, results[case.name])


def test_maxima_are_exact_and_keep_what_is_not_a_number(results: dict[str, Any]) -> None:
    for case in QUADS:
        if "mean" not in case.name:
            (mine,), _ = results[case.name]
            due = case.model(*case.inputs)
            assert torch.equal(mine.nan_to_num(nan=7.0), due.nan_to_num(nan=7.0)), case.name


@pytest.mark.parametrize("case", NOT_QUADS, ids=lambda case: case.name)
def test_rows_that_gain_nothing_are_read_element_by_element(case: Case) -> None:
    fused([case], {})
    assert "tl.split" not in job(case)["source"]


COMPILED = cases("pool", {
    "long": (lambda x: F.max_pool1d(x, 8, 1, 4, 3), torch.empty(4, 192, 65536)),
    "mean": (lambda x: F.avg_pool1d(x, 8, 1, 4), torch.empty(4, 128, 65536)),
    "apart": (lambda x: F.max_pool1d(x, 9, 2, 3), torch.empty(4, 16, 8192)),
})  # fmt: skip


def test_rows_stay_in_registers(tmp_path: Path) -> None:
    fused(COMPILED)
    jobs = [{**job(case), "capabilities": (80, 90, 100)} for case in COMPILED]
    used = worked("compile", jobs, tmp_path)
    assert len(used) == 3 * len(COMPILED)
    assert {name: usage for name, usage in used.items() if usage["STACK"] or usage["LOCAL"]} == {}
    assert max(usage["REG"] for usage in used.values()) <= 80
