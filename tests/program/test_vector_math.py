"""The printed functions against float64, for every register width."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

from kernelskill.program.vector_math import PIECES, needed, vector_type

LIMIT_ULP = {
    "exp": 1.5, "expm1": 1.5, "log": 1.5, "log1p": 1.5, "tanh": 2.5, "erf": 1.5, "sigmoid": 2.5, "sqrt": 0.5,
    "rsqrt": 1.5, "floor": 0.0, "ceil": 0.0, "round": 0.0, "trunc": 0.0, "sin": 1.5, "cos": 1.5,
}  # fmt: skip
SMALLEST_NORMAL = 1.1754944e-38


def samples() -> torch.Tensor:
    exponents = torch.linspace(-44, 38, 1 << 15, dtype=torch.float64)
    special = [
        float("inf"),
        -float("inf"),
        float("nan"),
        0.0,
        -0.0,
        1.0,
        -1.0,
        88.7,
        88.8,
        -103.9,
        -104.1,
        1e-45,
    ]
    parts = [
        torch.linspace(-105, 100, 1 << 16, dtype=torch.float64), torch.linspace(-2, 2, 1 << 16, dtype=torch.float64),
        10.0**exponents, -(10.0**exponents), torch.tensor(special, dtype=torch.float64),
    ]  # fmt: skip
    x = torch.cat(parts).float()
    return torch.cat([x, torch.ones(-len(x) % 16)])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("math")
    parts = ["#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <immintrin.h>\n"]
    parts += [vector_type(lanes) for lanes in (4, 8, 16)]
    parts += [PIECES[name][1] for name in needed(set(LIMIT_ULP))]
    for name in LIMIT_ULP:
        for lanes in (4, 8, 16):
            parts.append(
                f'extern "C" void {name}_{lanes}(const float* x, float* y, long n) {{\n'
                f"  for (long i = 0; i < n; i += {lanes}) {{\n"
                f"    floats{lanes} v; std::memcpy(&v, x + i, sizeof v); v = {name}_(v);\n"
                "    std::memcpy(y + i, &v, sizeof v);\n  }\n}\n"
            )
    text = folder / "math.cpp"
    text.write_text("".join(parts))
    command = [
        "g++",
        "-std=c++17",
        "-O2",
        "-march=native",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-Wno-psabi",
    ]
    subprocess.run([*command, "-shared", "-fPIC", str(text), "-o", str(folder / "math.so")], check=True)
    return ctypes.CDLL(str(folder / "math.so"))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", list(LIMIT_ULP))
def test_error_in_units_of_the_last_place(library: ctypes.CDLL, name: str, lanes: int) -> None:
    x = samples()
    y = torch.empty_like(x)
    pointers = ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())
    getattr(library, f"{name}_{lanes}")(*pointers, ctypes.c_long(len(x)))
    function = getattr(torch, name)
    true, single = function(x.double()), function(x.double()).float()
    finite = single.isfinite()
    assert torch.equal(y[~finite].isnan(), single[~finite].isnan())
    assert torch.equal(y[~finite].nan_to_num(1.0), single[~finite].nan_to_num(1.0))
    size = single[finite].abs()
    unit = (torch.nextafter(size, torch.tensor(float("inf"))) - size).double()
    if name == "sigmoid":  # 1 / (1 + exp(-x)) reaches 0 where exp overflows, in torch as well
        unit = unit.clamp_min(SMALLEST_NORMAL)
    error = ((y[finite].double() - true[finite]).abs() / unit).max().item()
    assert error <= LIMIT_ULP[name]
