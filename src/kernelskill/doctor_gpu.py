"""What the machine has for the CUDA target: device, driver, Triton, a CUDA compiler, and the right to read counters."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from kernelskill.config import Config, describe_gpu, gpu_name
from kernelskill.errors import KernelSkillError
from kernelskill.records.checks import Check

PARAMETERS = Path("/proc/driver/nvidia/params")
COUNTERS_HELP = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"


def examine_gpu(config: Config) -> tuple[Check, ...]:
    """Look at everything that writing for a GPU needs; needed only where the target is cuda."""
    needed = config.target == "cuda"
    if importlib.util.find_spec("torch") is None:
        return (Check(name="gpu", ok=False, needed=needed, found="not looked for (needs torch)"),)
    try:
        name = gpu_name(config)
    except KernelSkillError:
        remedy = "install a CUDA build of PyTorch and the NVIDIA driver, or write for --target cpu"
        return (Check(name="gpu", ok=False, needed=needed, found="none that torch sees", remedy=remedy),)
    told = describe_gpu(config)
    found = f"{name}, compute capability {told['compute_capability']}, driver {told['driver_version']}"
    return (
        Check(name="gpu", ok=True, needed=needed, found=found),
        _triton(needed=needed),
        _nvcc(),
        _counters(),
    )


def _triton(*, needed: bool) -> Check:
    if importlib.util.find_spec("triton") is None:
        remedy = "pip install 'kernelskill[torch]'"
        return Check(name="triton", ok=False, needed=needed, found="not installed", remedy=remedy)
    return Check(name="triton", ok=True, needed=needed, found=metadata.version("triton"))


def _nvcc() -> Check:
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        remedy = "only candidates in CUDA C++ need it: install the CUDA toolkit"
        return Check(name="nvcc", ok=False, needed=False, found="not found", remedy=remedy)
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in told.stdout.splitlines() if "release" in line]
    return Check(name="nvcc", ok=True, needed=False, found=lines[-1].strip() if lines else compiler)


def _counters() -> Check:
    """Whether ncu is there and, as far as the driver tells, may read counters."""
    from kernelskill.evaluation.cuda.ncu import find_ncu

    program = find_ncu()
    if program is None:
        remedy = "install Nsight Compute; without it profiles are timelines"
        return Check(name="ncu", ok=False, needed=False, found="not found", remedy=remedy)
    told = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in told.stdout.splitlines() if line.startswith("Version")]
    version = lines[-1].split()[1] if lines else str(program)
    if counters_restricted(PARAMETERS.read_text(encoding="utf-8") if PARAMETERS.exists() else ""):
        found = f"{version}, but the driver gives counters to administrators only, and workers are none"
        return Check(name="ncu", ok=False, needed=False, found=found, remedy=f"see {COUNTERS_HELP}")
    return Check(name="ncu", ok=True, needed=False, found=f"{version}, counters can be read")


def counters_restricted(parameters: str) -> bool:
    """Whether the driver keeps hardware counters to administrators.

    Workers hold no capability, whoever starts them, so this concerns root's too.

    Args:
        parameters: text of /proc/driver/nvidia/params.
    """
    return any(line.replace(" ", "") == "RmProfilingAdminOnly:1" for line in parameters.splitlines())
