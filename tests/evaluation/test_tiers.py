"""Which tier a way of multiplying has: the kernels that measure it compile for GPUs, and compute what they say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COMPILE = """
import sys
import tier_kernels as ours
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "terms": "i32", "promote": "i32"}
for side in (0, ours.SIDE):
    for precision in sorted({way.precision for way in ours.WAYS.values()}):
        fixed = {"SIDE": side, "N": 256, "PRECISION": precision, "BLOCK": ours.BLOCK, "BLOCK_K": ours.BLOCK_K}
        attrs = {(place,): [["tt.divisibility", 16]] for place in range(5)}
        made = ASTSource(ours.product, signature | dict.fromkeys(fixed, "constexpr"), fixed, attrs)
        found = triton.compile(made, target=GPUTarget("cuda", 90, 32), options={"num_warps": ours.WARPS})
        words = found.asm["ptx"]
        print(side, precision, "mma" in words, found.metadata.shared, words.count("add.f32"))
"""
INTERPRET = """
import json
from tiers import TASKS, rows

print(json.dumps([row for task in TASKS for inputs in ("normal", "integers") for row in rows(task, 64, inputs, "cpu")]))
"""


def python(text, **settings):
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=BENCHMARKS,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_every_kernel_compiles_for_a_gpu_and_uses_tensor_cores_where_it_should():
    lines = [line.split() for line in python(COMPILE).splitlines()]
    assert len(lines) == 12
    assert {precision: mma == "True" for _, precision, mma, *_ in lines} == {
        "bf16": True, "fp16": True, "ieee": False, "split": True, "tf32": True, "tf32x3": True
    }  # fmt: skip
    assert all(int(shared) <= 227 << 10 for *_, shared, _ in lines)
    sums = {precision: int(added) for _, precision, _, _, added in lines}
    assert sums["split"] == sums["tf32"], "its sums stay in the tensor core until they are promoted"
    assert sums["tf32x3"] > sums["split"], "Triton's own promotes after every block"


@pytest.mark.slow
def test_tiers_by_the_judges_gates_in_the_interpreter():
    found = json.loads(python(INTERPRET, TRITON_INTERPRET="1"))
    seen = {(row["task"], row["inputs"], row["way"]): row["tier"] for row in found}
    for task in ("product", "convolution"):
        for inputs in ("normal", "integers"):
            # The interpreter multiplies the bits of bf16, and knows no TF32.
            tiers = {
                way: seen[task, inputs, way] for way in ("library fp32", "blocked fp32", "3xTF32", "fp16")
            }
            assert tiers == {
                "library fp32": "fp32", "blocked fp32": "fp32", "3xTF32": "fp32", "fp16": "tf32"
            }, (task, inputs)  # fmt: skip
