"""Folds over any axes, of any length, against float64."""

from __future__ import annotations

import pytest
import torch
from small_programs import Case, Computes, check, compiled, run

FOLDS = {
    "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin, "var": torch.var, "std": torch.std,
    "norm": lambda x, dim: torch.linalg.vector_norm(x, dim=dim),
    "norm_1": lambda x, dim: torch.linalg.vector_norm(x, 1, dim=dim), "logsumexp": torch.logsumexp,
    "prod": torch.prod, "argmax": torch.argmax, "argmin": torch.argmin, "max": lambda x, dim: torch.max(x, dim),
    "any": lambda x, dim: torch.any(x > 1.4, dim), "all": lambda x, dim: torch.all(x > 0.6, dim),
}  # fmt: skip
ONE_AXIS = {"prod", "argmax", "argmin", "max", "any", "all"}
AXES = ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1), (0, 1, 2))
LENGTHS = (2, 3, 7, 17, 1000, 4097)


def cases() -> list[Case]:
    torch.manual_seed(2)
    found: list[Case] = []
    for name, fold in FOLDS.items():
        for axes in AXES:
            if name in ONE_AXIS and len(axes) > 1:
                continue
            dim = axes[0] if name in ONE_AXIS else axes
            label = f"{name}_{''.join(map(str, axes))}"
            x = 1 + 0.1 * torch.randn(6, 50, 40)
            found.append(Case(label, Computes(lambda x, f=fold, d=dim: f(x, dim=d)), [x]))
    for length in LENGTHS:
        for name, rounding in (
            ("sum", False),
            ("amax", False),
            ("max", True),
            ("argmin", True),
            ("var", False),
        ):
            x = torch.randn(20, length) + 3
            x = x.round() if rounding else x
            found.append(Case(f"row_{name}_{length}", Computes(lambda x, f=FOLDS[name]: f(x, dim=-1)), [x]))
    full = {
        "sum": torch.sum, "mean": torch.mean, "max": torch.max, "any": lambda x: (x > 2.5).any(),
        "square_mean": lambda x: (x * x).mean(), "rows_then_all": lambda x: (x.sum(-1) * 2).sum(),
    }  # fmt: skip
    for name, function in full.items():
        found.append(Case(f"all_{name}", Computes(function), [torch.rand(30, 201)]))
        found.append(Case(f"all_{name}_large", Computes(function), [torch.rand(3, 1 << 17)]))
    for threads in (1, 2, 3):
        found.append(
            Case(f"threads_{threads}", Computes(lambda x: x.sum()), [torch.rand(1 << 18)], threads=threads)
        )
        best = Computes(lambda x: x.argmax(-1))
        found.append(Case(f"place_{threads}", best, [torch.randn(2, 1 << 16).round()], threads=threads))
    schedules: dict[str, dict[str, object]] = {
        "narrow": {"vector_bits": 256, "accumulators": 2}, "one": {"accumulators": 1}, "many": {"accumulators": 8},
        "whole_rows": {"split": 1}, "small_blocks": {"block": 32},
    }  # fmt: skip
    for name, schedule in schedules.items():
        found.append(
            Case(f"{name}_row", Computes(lambda x: x.sum(-1)), [torch.rand(9, 3001)], schedule=schedule)
        )
        found.append(
            Case(f"{name}_column", Computes(lambda x: x.sum(0)), [torch.rand(300, 301)], schedule=schedule)
        )
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        found.append(Case(f"sum_{name}", Computes(lambda x: x.sum(-1)), [torch.rand(64, 1000).to(dtype)]))
    pooled = torch.rand(4, 6, 7, 7)
    found.append(
        Case("global_pool", Computes(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1)), [pooled])
    )
    found.append(Case("kept", Computes(lambda x: x.sum(1, keepdim=True) + 1), [torch.rand(30, 20, 10)]))
    return found


CASES = cases()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    return compiled(CASES, tmp_path_factory.mktemp("reductions"))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_fold_is_one_kernel_and_exact_enough(library, name: str) -> None:
    case, built = library[name]
    assert len(case.program.kernels) == 1
    assert not case.left
    check(case, built, slack=20.0 if name.startswith(("prod", "var", "std", "row_var")) else 4.0)


def test_first_of_equals_and_nan_win(library) -> None:
    case, built = library["row_max_17"]
    x = torch.zeros(20, 17)
    x[1, 5] = float("nan")
    x[1, 9] = float("nan")
    x[2] = -float("inf")
    x[3, 16] = 1
    other = Case(case.name, case.model, [x])
    other.program = case.program
    (values, places), _ = run(other, built)
    stock = torch.max(x, -1)
    assert torch.equal(places, stock.indices)
    assert torch.equal(values.nan_to_num(9.0), stock.values.nan_to_num(9.0))
