"""Maps in the interpreter: every operation, and every way in which operands may lie beside each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_cases import check, fused, job, unused, worked
from small_programs import Case, Computes

SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-8, -1e-8, 88.5, -88.5, 1e4, -1e4,
                        torch.inf, -torch.inf, torch.nan])  # fmt: skip
X, Y, COLUMN, ROW = torch.randn(6, 35), torch.randn(6, 35), torch.randn(6, 1), torch.randn(35)
UNARY: dict[str, Any] = {
    "abs": torch.abs, "exp": torch.exp, "expm1": torch.expm1, "sqrt": torch.sqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc,
    "round": torch.round, "log": torch.log, "log1p": torch.log1p, "rsqrt": torch.rsqrt, "neg": torch.neg,
    "relu": torch.relu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "mish": F.mish,
    "selu": F.selu, "softplus": F.softplus, "hardswish": F.hardswish, "clamp": lambda x: x.clamp(-1, 1),
    "isnan": torch.isnan, "both": lambda x: (x > 0) & ~(x == 1), "cube_root": lambda x: x.pow(1.7),
    "power": lambda x: torch.pow(2.0, x), "reciprocal": torch.reciprocal,
}  # fmt: skip
PERIODIC: dict[str, Any] = {
    "sin": torch.sin,
    "gelu": F.gelu,
    "cos": torch.cos,
    "sign": torch.sign,
    "minimum": lambda x: torch.minimum(x, x * x),
}


def table() -> list[tuple[Case, dict[str, Any]]]:
    torch.manual_seed(4)
    found: list[tuple[Case, dict[str, Any]]] = []

    def add(name: str, function: Any, *inputs: torch.Tensor, **gpu: Any) -> None:
        found.append((Case(name, Computes(function), [tensor.clone() for tensor in inputs]), gpu))

    for name, function in UNARY.items():
        add(name, lambda x, f=function: f(x), torch.cat((SPECIAL, torch.randn(115) * 3)))
    for name, function in PERIODIC.items():
        add(name, lambda x, f=function: f(x), torch.randn(131) * 3)
    add("powers", lambda x, y: torch.pow(x, y), torch.randn(90) * 3, torch.randn(90).mul(3).round())
    for label, gpu in (("", {}), ("_blocks", {"block": 16})):
        add(f"same{label}", lambda x, y: x * 2 + y, X, Y, **gpu)
        add(f"column{label}", lambda x, y: x * y, X, COLUMN, **gpu)
        add(f"row{label}", lambda x, y: x + y, X, ROW, **gpu)
        add(f"outer{label}", lambda x, y: x * 2 + y, COLUMN, ROW, **gpu)
        add(
            f"channels{label}",
            lambda x, y: (x + y).relu(),
            torch.randn(2, 3, 4, 8),
            torch.randn(3, 1, 1),
            **gpu,
        )
        add(f"transposed{label}", lambda x, y: x.t() + y, torch.randn(35, 12), torch.randn(12, 35), **gpu)
        add(
            f"last_swapped{label}",
            lambda x: (x.transpose(1, 2) * 2).contiguous(),
            torch.randn(3, 33, 40),
            **gpu,
        )
        add(f"strided{label}", lambda x: x[:, ::2] * 2, X, **gpu)
        add(f"offset{label}", lambda x: x[1:, 3:] * 2, X, **gpu)
    add("wide_rows", lambda x, y: x + y, torch.randn(3, 1020), torch.randn(3, 1))
    add("divisible", lambda x, y: x + y, torch.randn(3, 2048), torch.randn(3, 1))
    add("number", lambda x: x * 2, torch.randn(()))
    add("one", lambda x, y: x * y, torch.randn(1, 1), torch.randn(1))
    add("masks", lambda x, m: torch.where(m, x, -x), X, X > 0)
    add("integers", lambda x, i: x + i, X, torch.arange(35))
    add("half", lambda x: x.exp() * 2, X.half())
    add("rounded", lambda x: (x * 2).to(torch.float16), X)
    add("channels_last", lambda x: x * 2 + 1, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    return found


CASES = table()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    cases = [case for case, _ in CASES]
    fused(cases, {case.name: gpu for case, gpu in CASES})
    return worked("interpret", [job(case) for case in cases], tmp_path_factory.mktemp("maps"))


@pytest.mark.parametrize("case", [case for case, _ in CASES], ids=lambda case: case.name)
def test_maps_are_as_accurate_as_eager(results: dict[str, Any], case: Case) -> None:
    assert unused(job(case)["source"]) == []
    check(case, results[case.name], slack=4.0)
    assert case.program.kernels
    assert not case.left
