"""Whose kernels ran on a GPU: told from PyTorch's and its compilers', as far as that shows without a GPU."""

import subprocess
import sys

import pytest
import torch
from real_workers import Bound, load, start

from kernelskill.evaluation.labels import Knocked, is_allowed, labels_of, own_share
from kernelskill.evaluation.worker.kernels import bare, is_theirs, own_texts
from kernelskill.evaluation.worker.session import Session

JITTED = """
@triton.jit
def fused_relu_add(x):
    pass
TEXT = '__global__ void scaled(const float* x)'
"""
FOREIGN = """
import ctypes, sys
from kernelskill.evaluation.worker import launches
libc, calls = ctypes.CDLL(None), []
kept, typed = libc.getpid, ctypes.CFUNCTYPE(ctypes.c_int)(("getpid", libc))
assert kept() and typed() and libc.getppid()
launches.silence_foreign(libc, ("getpid", "no_such_function"), lambda: calls.append(1))
assert not (kept() or typed() or libc.getpid() or ctypes.CDLL(None).getpid(1, 2, 3))
assert len(calls) == 4
assert ctypes.CDLL(None).getppid(), "others still work"
"""
LAUNCHES = """
import torch
from torch.cuda._utils import _CudaKernel
kernel = _CudaKernel(None, None)
class ModelNew(torch.nn.Module):
    def forward(self, x):
        try:
            kernel(args=[x])
        except Exception:  # there is no GPU
            return x * 2
        return x * 0
"""
ONES = {"own_share_ratio": 1.0, "kernels_us": 40.0}
NONE_LEFT = Knocked(same=False, call_us=20.0, kernels_us=0.0)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("relu_add", "relu_add"),
        ("void mine::relu<float, 4>(float const*, int)", "relu"),
        ("void (anonymous namespace)::relu<float>(float*)", "relu"),
        ("relu(float*)", "relu"),
        ("", ""),
    ],
)
def test_the_bare_name_of_a_kernel(kernel, name):
    assert bare(kernel) == name


def test_kernels_of_pytorchs_compilers_are_recorded_as_operators_by_their_name():
    scripted = torch.jit.script(relu_add)
    on_cpu = torch._C._jit_can_fuse_on_cpu()
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_te_must_use_llvm_cpu(False)
    try:
        with torch.no_grad():
            for _ in range(4):
                scripted(torch.rand(8, 8))
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                scripted(torch.rand(8, 8))
    finally:
        torch._C._jit_override_can_fuse_on_cpu(on_cpu)
        torch._C._jit_set_te_must_use_llvm_cpu(True)
    recorded = {entry.key for entry in profile.key_averages() if not entry.is_user_annotation}
    assert is_theirs("fused_relu_add", recorded)
    assert is_theirs("fused_relu_add_1", recorded), "a name that was given already is numbered"
    assert not is_theirs("mine", recorded)


def relu_add(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1


def test_in_a_graph_only_kernels_that_the_candidate_holds_are_its_own(tmp_path):
    path = tmp_path / "candidate_source.py"
    path.write_text(JITTED)
    texts = own_texts(Session("candidate", tmp_path, threads=1, candidate_files=(str(path),)))
    assert not is_theirs("fused_relu_add", (), texts)
    assert not is_theirs("scaled(float const*)", (), texts)
    assert is_theirs("triton_poi_fused_0", (), texts)
    assert is_theirs("relu_add", (), texts), "part of another name"
    assert is_theirs("fused_relu_add", {"fused_relu_add"}, texts)
    assert not is_theirs("void mine::scale<float>(float*)", (), [b"\0_ZN4mine5scaleIfEEvPT_\0"])
    assert not is_theirs("triton_poi_fused_0", ()), "outside of graphs what is taken away decides"


def test_functions_of_the_driver_are_silenced_wherever_ctypes_calls_them():
    subprocess.run([sys.executable, "-c", FOREIGN], check=True, timeout=120)


def test_what_still_runs_without_the_candidates_kernels_is_not_its_own():
    assert own_share(ONES, None) == 0.0, "nothing could be taken away"
    assert own_share(ONES, NONE_LEFT) == 1.0
    assert own_share(ONES, Knocked(same=False, call_us=20.0, kernels_us=30.0)) == 0.25
    assert own_share({**ONES, "own_share_ratio": 0.6}, NONE_LEFT) == 0.6
    assert own_share(ONES, Knocked(same=False, call_us=20.0, kernels_us=90.0)) == 0.0
    assert own_share(ONES, Knocked(same=False, call_us=None)) == 1.0, "it cannot do without"
    assert not is_allowed(labels_of(ONES, (), ()), frozenset({"custom"}))
    assert is_allowed(labels_of(ONES, (), (), NONE_LEFT), frozenset({"custom"}))


def test_kernels_that_pytorch_builds_from_its_text_are_silenced_too(best):
    with start(best) as worker:
        load(worker, LAUNCHES)
        bound = Bound(worker)
        bound.run()
        assert torch.equal(bound.outputs, 2 * bound.inputs)
        assert bound.run("knocked", [0])["flags"] == ["silenced"]
        assert not bound.outputs[0].any()
