"""Element-wise chains against float64."""

from __future__ import annotations

import pytest
import torch
from small_programs import Case, Computes, check, compiled, run
from torch.nn import functional as F

UNARY = {
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "softplus": F.softplus, "elu": F.elu, "selu": F.selu, "celu": F.celu, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "leaky_relu": F.leaky_relu, "relu6": F.relu6, "softsign": F.softsign,
    "logsigmoid": F.logsigmoid, "hardtanh": F.hardtanh, "tanhshrink": F.tanhshrink, "softshrink": F.softshrink,
    "cube": lambda x: x**3, "power_7": lambda x: x**7, "root": lambda x: x.abs() ** 0.5,
    "power_2_5": lambda x: x.abs() ** 2.5, "rsqrt": lambda x: (x.abs() + 1).rsqrt(), "reciprocal": lambda x: 1 / x,
    "clamp": lambda x: x.clamp(-1, 0.5), "sin": torch.sin, "cos": torch.cos, "floor": torch.floor,
    "sign": torch.sign, "log1p": lambda x: torch.log1p(x.abs()), "expm1": torch.expm1, "erf": torch.erf,
    "where": lambda x: torch.where(x > 0, x, x * x), "between": lambda x: (x > 0) & (x < 1), "square": torch.square,
}  # fmt: skip
LENGTHS = (1, 3, 7, 17, 1000, 4097)


def chain(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) * torch.sigmoid(1.7 * x) + torch.tanh(x) * torch.exp(-x * x)


def cases() -> list[Case]:
    torch.manual_seed(0)
    found = [
        Case(f"unary_{name}", Computes(function), [torch.randn(33, 48) * 2])
        for name, function in UNARY.items()
    ]
    found += [Case(f"chain_{length}", Computes(chain), [torch.randn(5, length)]) for length in LENGTHS]
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        found.append(Case(f"silu_{name}", Computes(lambda x: F.silu(x)), [torch.randn(64, 100).to(dtype)]))
        cast = Computes(lambda x, dtype=dtype: F.gelu(x.float()).to(dtype))
        found.append(Case(f"cast_{name}", cast, [torch.randn(64, 100).to(dtype)]))
    for name, count in (("one_thread", 1), ("two_threads", 2), ("three_threads", 3)):
        found.append(Case(name, Computes(chain), [torch.randn(300, 333)], threads=count))
    schedules: dict[str, dict[str, object]] = {
        "wide": {"vector_bits": 512, "unroll": 4}, "narrow": {"vector_bits": 256, "unroll": 2},
        "tiny": {"vector_bits": 128}, "streaming": {"nontemporal": True}, "single": {"threads": 1},
    }  # fmt: skip
    for name, schedule in schedules.items():
        found.append(Case(name, Computes(chain), [torch.randn(77, 333)], schedule=schedule))
    return found


CASES = cases()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    return compiled(CASES, tmp_path_factory.mktemp("elementwise"))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_one_kernel_as_accurate_as_eager(library, name: str) -> None:
    case, built = library[name]
    assert len(case.program.kernels) == 1
    assert not case.left
    check(case, built)


@pytest.mark.parametrize("name", ["silu", "softplus", "log1p", "expm1", "erf", "reciprocal", "clamp", "elu"])
def test_non_finite_values_come_out_as_in_torch(library, name: str) -> None:
    case, built = library[f"unary_{name}"]
    x = case.inputs[0].clone()
    x.view(-1)[:10] = torch.tensor(
        [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-42, -1e-42, 3e38, -3e38, 90]
    )
    other = Case(case.name, case.model, [x])
    other.program = case.program
    (ours,), _ = run(other, built)
    stock = UNARY[name](x)
    assert torch.allclose(ours.view(-1)[:10], stock.view(-1)[:10], rtol=1e-5, atol=1e-38, equal_nan=True)
