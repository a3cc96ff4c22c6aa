"""Kernels in CUDA C++ compile for every generation with clusters, without a GPU."""

import shutil

import clustered
import pytest
import torch

from kernelskill.program.cuda import launcher
from kernelskill.program.triton import sections

needs_compiler = pytest.mark.skipif(
    launcher._nvrtc() is None and shutil.which("nvcc") is None,
    reason="neither NVRTC (pip install nvidia-cuda-nvrtc) nor nvcc is here",
)
CASES = {
    "softmax": (clustered.SOFTMAX, [(torch.float32, 100000)], 4),
    "odd": (clustered.LOG_SOFTMAX, [(torch.float32, 100001)], 8),
    "bfloat16": (clustered.RMS, [(torch.bfloat16, 32768)], 2),
    "extremes": (clustered.SCALED, [(torch.float32, 700000)], 16),
    "mask": (clustered.MASKED, [(torch.float16, 70000), (torch.bool, 70000)], 4),
    "weights": (clustered.layer("nn.LayerNorm(65536)"), [(torch.float32, 65536)], 4),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def text_of(name):
    source, shapes, parts = CASES[name]
    inputs = [torch.empty(3, length, dtype=dtype, device="meta") for dtype, length in shapes]
    program, _, _ = clustered.traced(source, inputs)
    names = {"CudaFunction": lambda name, source, capability: source}
    exec(sections(clustered.in_clusters(program, parts).kernels)[0], names)
    assert names["_rows_0"] == names["_rows_0_unaligned"]
    return names["_rows_0"]


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_it_compiles(name):
    text = text_of(name)
    for arch in ("sm_90", "sm_100"):
        image = launcher.compiled(text, arch)
        assert image.startswith(b"\x7fELF")
        assert b"_rows_0_unaligned" in image


@needs_compiler
def test_clusters_do_not_compile_for_what_has_none():
    with pytest.raises(RuntimeError, match="do not compile"):
        launcher.compiled(text_of("softmax"), "sm_80")


SCALE = 'extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= %s; }'


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_machine_code_is_kept_by_content(arch, tmp_path):
    first = launcher.compiled(SCALE % "2.0f", arch)
    (kept,) = tmp_path.glob("kernelskill-*/*")
    kept.write_bytes(b"kept")
    assert launcher.compiled(SCALE % "2.0f", arch) == b"kept"
    assert launcher.compiled(SCALE % "3.0f", arch) not in (b"kept", first)
    assert len(list(tmp_path.glob("kernelskill-*/*"))) == 2, "nothing else is left behind"


@needs_compiler
def test_what_the_compiler_says_is_told():
    with pytest.raises(RuntimeError, match=r"kernels\.cu\(1\).*two"):
        launcher.compiled(SCALE % "two", "sm_90")


def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / f"kernelskill-{launcher.os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(RuntimeError, match="only you"):
        launcher._folder()


def test_without_a_compiler_the_way_to_one_is_told(monkeypatch):
    monkeypatch.setattr(launcher, "_nvrtc", lambda: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(launcher.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="pip install nvidia-cuda-nvrtc"):
        launcher.compiled(SCALE % "2.0f", "sm_90")
