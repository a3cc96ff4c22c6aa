"""The kernels that are recorded compute what their names say, and are what their cases are there for."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import CEILINGS
from right_answers import ANSWERS

from kernelskill.features.bounds import FULL_WARPS, expected_bound, issue_us
from kernelskill.features.kernel_facts import Load

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
WORKER = Path(__file__).parent / "kernel_worker.py"


def worked(kind, folder):
    results = folder / "results.json"
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton")}
    environment |= {"TRITON_INTERPRET": "1"} if kind == "interpret" else {}
    done = subprocess.run(
        [sys.executable, str(WORKER), kind, str(results)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(results.read_text())


def test_kernels_compute_what_pytorch_computes(tmp_path):
    found = worked("interpret", tmp_path)
    tolerance = {"half_silu": 1e-3, "softmax_pieces": 1e-4, "dropout, share that is kept": 0.05}
    wrong = {name: error for name, error in found.items() if not error <= tolerance.get(name, 3e-5)}
    assert not wrong
    assert len(found) == 20


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return worked("compile", tmp_path_factory.mktemp("compiled"))


@pytest.mark.slow
def test_kernels_compile_for_the_device_and_only_one_spills(compiled):
    assert {name for name, told in compiled.items() if told["STACK"]} == {"spilling_norm"}
    assert all(told["shared"] <= 227 << 10 and told["REG"] <= 255 for told in compiled.values())


def expected(told):
    """Class by work, code and plan, at the ceilings of the recorded H200."""
    names = ("read_bytes", "written_bytes", "transcendentals", "flops")
    load = Load(**{name: int(told[name]) for name in names})
    issued = issue_us(told["code"], load, CEILINGS) if told["is_map"] else None
    fill = None if told["is_map"] else told["warps"] / FULL_WARPS
    return expected_bound(load, CEILINGS.call_us, CEILINGS, fill, issued)


@pytest.mark.slow
def test_code_and_plan_tell_the_class_of_kernels_that_were_never_recorded(compiled):
    wrong = {name for name, told in compiled.items() if expected(told) != ANSWERS[name].bound}
    # Where atomics go is in the data: all on a few words, they wait for each other.
    assert wrong == {"few_bins"}
    assert len(compiled) == 20
