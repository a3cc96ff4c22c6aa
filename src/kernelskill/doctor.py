"""What this machine has and lacks, with the command that brings what is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelskill.config import Config, device_name, threads_of
from kernelskill.doctor_gpu import examine_gpu
from kernelskill.records.checks import Check

PROBE = """
#include <omp.h>
extern "C" int threads() { int n = 0;
#pragma omp parallel reduction(+:n)
n += 1; return n; }
"""


def examine(config: Config) -> tuple[Check, ...]:
    """Look at everything that a run needs or profits from."""
    return (
        _python(),
        _package("torch", needed=True, remedy="pip install 'kernelskill[torch]'"),
        _package("numpy", needed=False, remedy="pip install 'kernelskill[torch]'"),
        _compiler(),
        _processor(config),
        _memory(),
        _sandbox(),
        _folder("cache", config.cache),
        _folder("runs", config.runs),
        _evidence(config),
        *examine_gpu(config),
    )


def _python() -> Check:
    version = platform.python_version()
    new_enough = tuple(int(part) for part in version.split(".")[:2]) >= (3, 11)
    return Check(
        name="python", ok=new_enough, needed=True, found=version, remedy="install Python 3.11 or newer"
    )


def _package(name: str, *, needed: bool, remedy: str) -> Check:
    from importlib import metadata

    if importlib.util.find_spec(name) is None:
        return Check(name=name, ok=False, needed=needed, found="not installed", remedy=remedy)
    return Check(name=name, ok=True, needed=needed, found=metadata.version(name))


def _compiler() -> Check:
    """A compiler that makes a shared library with OpenMP; the kernels are built with it."""
    remedy = "apt-get install g++"
    compiler = shutil.which("g++")
    if compiler is None:
        return Check(name="g++", ok=False, needed=True, found="not found", remedy=remedy)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(PROBE, encoding="utf-8")
        built = subprocess.run(
            [
                compiler,
                "-O3",
                "-march=native",
                "-fopenmp",
                "-shared",
                "-fPIC",
                str(source),
                "-o",
                f"{source}.so",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False)
    if built.returncode:
        lines = built.stderr.strip().splitlines() or ["no message"]
        return Check(name="g++", ok=False, needed=True, found=f"cannot build: {lines[-1]}", remedy=remedy)
    return Check(name="g++", ok=True, needed=True, found=f"{version.stdout.strip()} with OpenMP")


def _processor(config: Config) -> Check:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    widest = "AVX-512" if " avx512f" in flags else "AVX2" if " avx2" in flags else "no AVX2"
    return Check(
        name="processor",
        ok=widest != "no AVX2",
        needed=False,
        found=f"{device_name()}, {threads_of(config)} threads, {widest}",
        remedy="kernels will be narrow on this processor",
    )


def _memory() -> Check:
    free_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 1e9
    return Check(
        name="memory",
        ok=free_gb > 4,
        needed=False,
        found=f"{free_gb:.1f} GB free",
        remedy="use smaller inputs",
    )


def _sandbox() -> Check:
    if importlib.util.find_spec("torch") is None:
        return Check(name="sandbox", ok=False, needed=False, found="not probed (needs torch)")
    from kernelskill.evaluation.sandbox import Sandbox

    sandbox = Sandbox.probe()
    return Check(
        name="sandbox",
        ok=sandbox.level == "full",
        needed=False,
        found=f"{sandbox.level}: {', '.join(sandbox.layers)}",
        remedy="apt-get install bubblewrap",
    )


def _folder(name: str, path: Path) -> Check:
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    return Check(
        name=f"{name} folder",
        ok=os.access(existing, os.W_OK),
        needed=True,
        found=str(path),
        remedy=f"make {existing} writable, or choose another folder in the settings",
    )


def _evidence(config: Config) -> Check:
    if config.evidence is None:
        return Check(name="evidence", ok=True, needed=False, found="off")
    found = f"{config.evidence}" + ("" if config.evidence.exists() else " (none yet)")
    return Check(name="evidence", ok=True, needed=False, found=found)
