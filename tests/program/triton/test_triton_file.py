"""A whole candidate file for a GPU: it reads like the CPU's, needs torch and triton only, and answers as the reference."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_programs import Case, Computes
from test_writer import MODEL, Written

from kernelskill.errors import ProgramError
from kernelskill.program.triton import CudaPrinter, kernel_function

RUN = """
import sys, torch
sys.path.insert(0, {folder!r})
import candidate, original
torch.manual_seed(0)
reference = original.Model(24)
ours = candidate.ModelNew(24)
ours.load_state_dict(reference.state_dict())
x = torch.randn(32, 24)
with torch.no_grad():
    wanted = reference(x)
    ours._reference_forward = None
    torch.testing.assert_close(ours(x), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.norm.running_var, reference.norm.running_var)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(MODEL, [torch.randn(32, 24)], tmp_path_factory.mktemp("written"), init=(24,))


@pytest.fixture(scope="module")
def source(written: Written) -> str:
    return CudaPrinter().source(written.program.model_dump(), written.task, written.workload)


def test_the_file_needs_torch_and_triton_only(source: str) -> None:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    assert names == {"torch", "triton"}
    assert "ctypes" not in source
    assert source.index("@triton.jit") < source.index("class ModelNew")
    assert max(map(len, source.splitlines())) <= 120


def test_the_file_runs_where_its_kernels_are_launched(source: str) -> None:
    assert "tensor.get_device() == torch.cuda.current_device()" in source
    assert ".is_cuda" in source
    assert ".is_cpu" not in source


def test_the_file_answers_as_the_reference(written: Written, source: str, tmp_path: Path) -> None:
    here = "tensor.is_cuda and tensor.get_device() == torch.cuda.current_device()"
    (tmp_path / "candidate.py").write_text(source.replace(here, "True").replace(".is_cuda", ".is_cpu"))
    (tmp_path / "original.py").write_text(written.text)
    environment = {
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", RUN.format(folder=str(tmp_path))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "gpu", [{"block": 48}, {"num_warps": 64}, {"split": -1}, {"block": 65536, "rows": 16}]
)
def test_what_no_program_can_hold_is_declined(gpu: dict[str, int]) -> None:
    case = Case("declined", Computes(lambda x: x.softmax(-1)), [torch.randn(4, 50)])
    case.fuse()
    (kernel,) = case.program.kernels
    schedule = kernel.schedule.model_copy(update={"gpu": kernel.schedule.gpu.model_copy(update=gpu)})
    with pytest.raises(ProgramError, match="declined_0"):
        kernel_function(kernel.model_copy(update={"schedule": schedule}))
