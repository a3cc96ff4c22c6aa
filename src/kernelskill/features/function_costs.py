"""How much dearer than an exponential the dear functions of a kernel are, as they are printed for each target.

A ceiling counts exponentials; a function that takes three times as long counts as three. Measured on a processor with
vectors of 256 bits, and counted in the machine code for compute capability 9.0, by `benchmarks/function_costs.py`
(`results/function-costs.json`). What a processor's vectors have no code for is called in libm, number by number: sine,
cosine and power are dear there, and a power on a GPU is computed in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kernelskill.program.region import Stage

COSTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "cpu": {
            "exp": 1.0, "expm1": 1.6, "log": 2.2, "log1p": 2.8, "tanh": 1.1, "sigmoid": 1.0, "erf": 2.3, "sin": 32.0,
            "cos": 32.0, "pow": 21.0, "div": 0.5, "sqrt": 0.7, "rsqrt": 1.4,
        },
        "cuda": {
            "exp": 1.0, "expm1": 2.2, "log": 3.5, "log1p": 5.6, "tanh": 4.0, "sigmoid": 2.6, "erf": 3.8, "sin": 3.6,
            "cos": 3.9, "pow": 19.0, "div": 1.1, "sqrt": 1.1, "rsqrt": 1.0,
        },
    }
)  # fmt: skip
"""Target -> operation of a kernel -> exponentials in whose time it is done. Others are plain arithmetic."""


def exponentials(stage: Stage, target: str) -> float:
    """Time of the dear functions that a stage evaluates for an element (a row, in a scalar stage), in exponentials."""
    costs = COSTS[target]
    softmaxes = sum(item.fold == "softmax" for item in stage.reductions)
    return softmaxes * costs["exp"] + sum(costs.get(op.fn, 0.0) for op in stage.ops)
