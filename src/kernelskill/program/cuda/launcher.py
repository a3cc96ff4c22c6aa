"""CUDA C++ compiled and launched without PyTorch's headers. Printed into candidates as it stands."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch


class CudaFunction:
    """One `extern "C" __global__` function of a CUDA C++ text, launched on the current stream.

    The text is compiled for the GPU at hand when the function is first called: by NVRTC, which comes with PyTorch, or
    else by nvcc. It must include no headers. Parameters are pointers and `long long`.

    Args:
        name: of the function.
        source: text that defines it.
        capability: least compute capability that it runs on, e.g. 90.
    """

    SHARED_BYTES, NON_PORTABLE_CLUSTER = 8, 14
    """Attributes of functions: dynamic shared memory, and clusters of more than eight blocks (cuda.h)."""

    def __init__(self, name: str, source: str, capability: int) -> None:
        self._name = name
        self._source = source
        self._capability = capability
        self._functions: dict[int, ctypes.c_void_p] = {}

    def __call__(
        self,
        blocks: int,
        threads: int,
        arguments: tuple[int, ...],
        shared_bytes: int = 0,
        cluster: int = 1,
        cooperative: bool = False,
    ) -> None:
        """Launch it.

        Args:
            blocks: size of the grid; a multiple of `cluster`.
            threads: of a block.
            arguments: addresses and numbers, in order of the parameters.
            shared_bytes: dynamic shared memory of a block.
            cluster: blocks that can read each other's shared memory.
            cooperative: all blocks run at the same time, or the launch fails.

        Raises:
            RuntimeError: it does not compile, this GPU cannot run it, or the driver refuses the launch.
        """
        device = torch.cuda.current_device()
        if device not in self._functions:
            self._functions[device] = self._load(device, shared_bytes, cluster)
        values = (ctypes.c_uint64 * len(arguments))(*arguments)
        first = ctypes.addressof(values)
        addresses = range(first, first + 8 * len(arguments), 8)
        parameters = (ctypes.c_void_p * len(arguments))(*addresses)
        wanted = [_Attribute(4, 0, (cluster, 1, 1))] if cluster > 1 else []
        wanted += [_Attribute(2, 0, (1,))] if cooperative else []
        attributes = (_Attribute * len(wanted))(*wanted)
        stream = torch.cuda.current_stream().cuda_stream
        shape = _Shape(blocks, 1, 1, threads, 1, 1, shared_bytes, stream, attributes, len(wanted))
        _call("cuLaunchKernelEx", ctypes.byref(shape), self._functions[device], parameters, None)

    def _load(self, device: int, shared_bytes: int, cluster: int) -> ctypes.c_void_p:
        major, minor = torch.cuda.get_device_capability(device)
        if 10 * major + minor < self._capability:
            raise RuntimeError(f"{self._name} needs compute capability {self._capability / 10:.1f} or more")
        image = compiled(self._source, f"sm_{major}{minor}")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuModuleLoadData", ctypes.byref(module), image)
        _call("cuModuleGetFunction", ctypes.byref(function), module, self._name.encode())
        _call("cuFuncSetAttribute", function, self.SHARED_BYTES, shared_bytes)
        if cluster > 8:
            _call("cuFuncSetAttribute", function, self.NON_PORTABLE_CLUSTER, 1)
        return function


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute (cuda.h): 4 = size of a cluster, 2 = cooperative."""

    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class _Shape(ctypes.Structure):
    """CUlaunchConfig (cuda.h)."""

    _fields_ = [
        *((f"size_{index}", ctypes.c_uint) for index in range(6)),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    """Call the driver."""
    driver = _driver()
    if code := getattr(driver, name)(*arguments):
        word = ctypes.c_char_p()
        driver.cuGetErrorName(code, ctypes.byref(word))
        raise RuntimeError(f"{name}: {(word.value or b'?').decode()}")


COMPILE_S = 120.0
"""Longest that a compilation may take."""
OPTIONS = ("-std=c++17", "-lineinfo")


def compiled(source: str, arch: str) -> bytes:
    """Machine code of a text: from the cache of this user, or compiled now.

    Raises:
        RuntimeError: there is no compiler, it refuses the text, or it takes too long.
    """
    nvrtc = _nvrtc()
    nvcc = "" if nvrtc else shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc") or ""
    if not nvrtc and not nvcc:
        raise RuntimeError("neither NVRTC nor nvcc is here: pip install nvidia-cuda-nvrtc")
    version = _nvrtc_version(nvrtc) if nvrtc else _run([nvcc, "--version"])
    key = "\0".join([version, arch, *OPTIONS, source])
    cached = _folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.cubin"
    if cached.exists():
        return cached.read_bytes()
    with tempfile.TemporaryDirectory(dir=cached.parent) as private:
        built = Path(private, "kernels.cubin")
        if nvrtc:
            built.write_bytes(_by_nvrtc(nvrtc, source, arch))
        else:
            text = Path(private, "kernels.cu")
            text.write_text(source, encoding="utf-8")
            _run([nvcc, "-cubin", f"-arch={arch}", *OPTIONS, "-o", str(built), str(text)])
        built.replace(cached)
    return cached.read_bytes()


def _folder() -> Path:
    """A folder that only this user can write to."""
    folder = Path(tempfile.gettempdir()) / f"kernelskill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RuntimeError(f"{folder} is not a folder that only you can write to")
    return folder


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"compiling took more than {COMPILE_S:.0f} s") from None
    if done.returncode:
        raise RuntimeError(f"the kernels do not compile:\n{done.stderr}")
    return done.stdout


@functools.cache
def _nvrtc() -> ctypes.CDLL | None:
    """NVRTC as PyTorch's wheels bring it, or as the system has it."""
    wheels = [path for place in sys.path for path in sorted(Path(place).glob("nvidia/*/lib/libnvrtc.so.*"))]
    installed = sorted(Path("/usr/local/cuda/lib64").glob("libnvrtc.so.*"))
    for path in (*wheels, *installed, Path("libnvrtc.so.13"), Path("libnvrtc.so.12")):
        try:
            # Some wheels do not tell it where its second library is; once loaded, it is found by name.
            for beside in path.parent.glob("libnvrtc-builtins.so.*") if path.is_absolute() else ():
                ctypes.CDLL(str(beside))
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def _nvrtc_version(nvrtc: ctypes.CDLL) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"NVRTC {major.value}.{minor.value}"


def _by_nvrtc(nvrtc: ctypes.CDLL, source: str, arch: str) -> bytes:
    """Compile in a thread, so that a compiler that does not end can be left behind."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    given = [option.encode() for option in (f"--gpu-architecture={arch}", *OPTIONS)]
    options = (ctypes.c_char_p * len(given))(*given)
    codes: list[int] = []
    work = threading.Thread(
        target=lambda: codes.append(nvrtc.nvrtcCompileProgram(program, len(given), options)), daemon=True
    )
    work.start()
    work.join(COMPILE_S)
    if not codes:
        raise RuntimeError(f"compiling took more than {COMPILE_S:.0f} s")
    if codes[0]:
        raise RuntimeError(f"the kernels do not compile:\n{_text(nvrtc, 'ProgramLog', program).decode()}")
    image = _text(nvrtc, "CUBIN", program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return image


def _text(nvrtc: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.raw
