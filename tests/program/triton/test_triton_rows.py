"""Kernels that fold rows, in the interpreter against float64: whole rows, long rows, shared rows, strided rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_cases import check, fused, job, unused, worked
from small_programs import Case, Computes
from torch import nn

from kernelskill.program.triton import kernel_function

FOLDS = {
    "sum": torch.sum, "amax": torch.amax, "amin": torch.amin, "var": torch.var, "logsumexp": torch.logsumexp,
    "norm": lambda x, dim: torch.linalg.vector_norm(x, dim=dim), "prod": torch.prod, "argmax": torch.argmax,
    "argmin": torch.argmin, "any": lambda x, dim: torch.any(x > 1.4, dim), "all": lambda x, dim: torch.all(x > 0.6, dim),
}  # fmt: skip
MIRRORED = {"amin", "argmin", "all"}
LOOP: dict[str, Any] = {"block": 16}
SPLIT: dict[str, Any] = {"block": 16, "split": 3}
BESIDE: dict[str, Any] = {"rows": 4}
AHEAD: dict[str, Any] = {"block": 16, "num_stages": 3}


def table() -> list[tuple[Case, dict[str, Any]]]:
    torch.manual_seed(3)
    found: list[tuple[Case, dict[str, Any]]] = []

    def add(name: str, function: Any, *inputs: torch.Tensor, **gpu: Any) -> None:
        model = function if isinstance(function, nn.Module) else Computes(function)
        found.append((Case(name, model, [tensor.clone() for tensor in inputs]), gpu))

    x = (1 + 0.1 * torch.randn(4, 40, 5)).round(decimals=2)
    for name, fold in FOLDS.items():
        if name in MIRRORED:
            add(f"{name}_loop", lambda x, f=fold: f(x, dim=1), x[:, :, 0].contiguous(), **LOOP)
            continue
        for label, dim, gpu in (
            ("line", 1, {}), ("loop", 1, LOOP), ("split", 1, SPLIT), ("beside", 1, BESIDE),
        ):  # fmt: skip
            add(f"{name}_{label}", lambda x, f=fold, d=dim: f(x, dim=d), x[:, :, 0].contiguous(), **gpu)
        for label, gpu in (
            ("tall", {}),
            ("tall_loop", {**LOOP, "rows": 4}),
            ("tall_split", {**SPLIT, "rows": 4}),
        ):
            add(f"{name}_{label}", lambda x, f=fold: f(x, dim=1), x, **gpu)
    for label, gpu in (("line", {}), ("loop", LOOP), ("split", SPLIT), ("beside", BESIDE)):
        add(f"softmax_{label}", lambda x: x.softmax(-1), torch.randn(5, 101) * 4, **gpu)
        add(f"log_softmax_{label}", lambda x: F.log_softmax(x, -1), torch.randn(5, 101) * 4, **gpu)
        add(f"layer_norm_{label}", nn.LayerNorm(101), torch.randn(5, 101) + 3, **gpu)
        add(f"layer_norm_32_{label}", nn.LayerNorm(32), torch.randn(8, 32) + 3, **gpu)
        add(f"batch_norm_{label}", nn.BatchNorm2d(5), torch.randn(4, 5, 7, 9) + 1, **gpu)
        add(f"group_norm_{label}", nn.GroupNorm(2, 6), torch.randn(3, 6, 5, 7) + 1, **gpu)
        add(
            f"cross_entropy_{label}",
            lambda x, y: F.cross_entropy(x, y),
            torch.randn(9, 37),
            torch.arange(9),
            **gpu,
        )
        add(
            f"mean_square_{label}",
            lambda x, y: F.mse_loss(x, y),
            torch.randn(9, 37),
            torch.randn(9, 37),
            **gpu,
        )
        add(
            f"cosine_{label}",
            lambda x, y: F.cosine_similarity(x, y),
            torch.randn(9, 37),
            torch.randn(9, 37),
            **gpu,
        )
        add(f"rows_then_all_{label}", lambda x: (x.logsumexp(-1) * 2).sum(), torch.rand(12, 41), **gpu)
    add("softmax_ahead", lambda x: x.softmax(-1), torch.randn(5, 101) * 4, **AHEAD)
    add("layer_norm_ahead", nn.LayerNorm(101), torch.randn(5, 101) + 3, **AHEAD)
    add("mean_square_ahead", lambda x, y: F.mse_loss(x, y), torch.randn(9, 37), torch.randn(9, 37), **AHEAD)
    add("max_beside_softmax", lambda x: (x.softmax(-1), x.amax(-1)), torch.randn(5, 101) * 4, **LOOP)
    add("softmax_tall", lambda x: x.softmax(1), torch.randn(3, 20, 9))
    add(
        "softmax_masked",
        lambda x, m: x.masked_fill(m, -torch.inf).softmax(-1),
        torch.randn(4, 33),
        torch.rand(4, 33) > 0.5,
    )
    add(
        "softmax_infinite",
        lambda x: x.softmax(-1),
        torch.where(torch.randn(20, 40) > 2, torch.inf, torch.randn(20, 40)),
    )
    add("max_nan", lambda x: x.amax(-1), torch.where(torch.randn(20, 40) > 2, torch.nan, torch.randn(20, 40)))
    add(
        "argmax_nan",
        lambda x: x.argmax(-1),
        torch.where(torch.randn(20, 40) > 2, torch.nan, torch.randn(20, 40)),
    )
    add("argmax_low", lambda x: x.argmax(-1), torch.full((3, 17), -torch.inf), **LOOP)
    add("both", lambda x: torch.max(x, -1), torch.randn(6, 70).round())
    add("rms", lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5), torch.randn(2, 6, 30))
    add("groups_shared", nn.GroupNorm(2, 4), torch.randn(2, 4, 4, 8) + 1, block=16, split=3)
    add("half", lambda x: x.softmax(-1), torch.randn(6, 70).half())
    add("one_long", lambda x: x.sum(-1), torch.rand(2, 40_001))
    add("one_row", nn.LayerNorm(60), torch.rand(1, 60))
    add("one_channel", nn.BatchNorm2d(1), torch.rand(2, 1, 5, 3))
    add("expanded", lambda x: (x.expand(4, 6, 30) * 2).sum(-1), torch.rand(6, 1))
    add("transposed", lambda x: x.transpose(1, 2).softmax(-1), torch.rand(3, 8, 20))
    add("strided", lambda x: x[:, ::2].sum(-1), torch.rand(3, 40))
    add("apart", lambda x: x.sum((0, 2)), torch.rand(3, 5, 40))
    return found


CASES = table()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    cases = [case for case, _ in CASES]
    fused(cases, {case.name: gpu for case, gpu in CASES})
    return worked("interpret", [job(case) for case in cases], tmp_path_factory.mktemp("rows"))


@pytest.mark.parametrize("case", [case for case, _ in CASES], ids=lambda case: case.name)
def test_rows_are_as_accurate_as_eager(results: dict[str, Any], case: Case) -> None:
    assert unused(job(case)["source"]) == []
    check(case, results[case.name])
    assert case.program.kernels
    assert all(op == "aten.add.Tensor" for op in case.left)  # the count of batches seen


@pytest.mark.parametrize("split", [1, 3])
def test_a_maximum_and_the_exponentials_below_it_take_one_walk(split: int) -> None:
    case = Case("once", Computes(lambda x: x.softmax(-1)), [torch.randn(5, 101)])
    fused([case], {"once": {"block": 16, "split": split}})
    (kernel,) = case.program.kernels
    launches = kernel_function(kernel).launches
    assert len(launches) == (2 if split > 1 else 1)
    text = "\n".join(launch.function() for launch in launches)
    assert text.count("tl.load(inputs_0_ptr") == 2 or text.count("for start in") == 2
