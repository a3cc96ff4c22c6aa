"""The profile that the project itself makes of one candidate, through a judge and its confined workers."""

from __future__ import annotations

import time
from typing import Any

from kernelskill.records import Candidate


class Overheard:
    """An evaluator whose counts are kept as they come, with the seconds they took."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator
        self.counts: list[dict[str, Any]] = []

    def profile(self, candidate: Any, kernels: Any) -> Any:
        """What the evaluator says."""
        return self._evaluator.profile(candidate, kernels)

    def count(self, candidate: Any, metrics: Any) -> Any:
        """What the evaluator says, which is kept."""
        began = time.monotonic()
        reply = self._evaluator.count(candidate, metrics)
        self.counts.append({"seconds": time.monotonic() - began, "reply": reply})
        return reply


def whole_profile() -> dict[str, Any]:
    """What the profiler of the project itself says about a candidate, through a judge and its confined workers."""
    from kernelskill.evaluation.cuda.judge import cuda_judge
    from kernelskill.profiling import GpuProfiler
    from kernelskill.records import Reference, Task

    judge = cuda_judge(
        Task(
            name="double",
            hash="double",
            origin="double.py",
            reference=Reference(
                loader="source", kind="module", entry="Model", source=DOUBLE,
                init_entry="get_init_inputs", inputs_entry="get_inputs",
            ),
        )
    )  # fmt: skip
    try:
        judge.describe()
        candidate = Candidate(id="c001", source=DOUBLED)
        heard = Overheard(judge)
        profile = GpuProfiler(heard).profile(candidate)
        sandbox = [judge.sandbox.level, *judge.sandbox.layers]
    finally:
        judge.close()
    return {
        "sandbox": sandbox,
        "counts": heard.counts,
        "profile": profile.model_dump(mode="json"),
    }


DOUBLE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.0
def get_init_inputs():
    return []
def get_inputs():
    return [torch.randn(4096, 8192)]
"""
DOUBLED = """
import torch, triton
import triton.language as tl

@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2.0 * tl.load(x + at, at < n), at < n)

def double(x):
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return double(x)
"""
