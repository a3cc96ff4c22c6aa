"""Kernels as text: the functions on the device, then one thin function a kernel that allocates and launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

from kernelskill.errors import ProgramError
from kernelskill.program.arguments import folded, spelled
from kernelskill.program.docstring import Reads, docstring
from kernelskill.program.program import Kernel
from kernelskill.program.region import Region
from kernelskill.program.triton.device_functions import called_by
from kernelskill.program.triton.maps import map_function
from kernelskill.program.triton.pool import pool_function
from kernelskill.program.triton.rows import row_function
from kernelskill.program.triton.scan import scan_function
from kernelskill.program.triton.text import GpuFunction
from kernelskill.records import TensorSpec

MOST_WARPS = 32
LARGEST_TILE = 65536
IMPORTS = "import torch\nimport triton\nimport triton.language as tl"

TEMPLATES: dict[str, Callable[[Kernel], GpuFunction]] = {
    "scan": scan_function,
    "pool": pool_function,
}


def kernel_function(kernel: Kernel) -> GpuFunction:
    """The launches of one kernel.

    Raises:
        ProgramError: it has no input to take a device from, or something in it is not printed.
    """
    _check(kernel)
    body = kernel.body
    if kernel.schedule.gpu.cluster:
        from kernelskill.program.cuda.source import cluster_function  # it is built on this package's launches

        printed = cluster_function(kernel)
    elif isinstance(body, Region):
        printed = map_function(kernel, body) if body.is_map else row_function(kernel, body)
    elif body.name in TEMPLATES:
        printed = TEMPLATES[body.name](kernel)
    else:
        raise ProgramError(f"kernel {kernel.name}: no template {body.name!r} for GPUs")
    if not printed.inputs:
        raise ProgramError(f"kernel {kernel.name} reads nothing, so it is not known where it runs")
    return printed


def _check(kernel: Kernel) -> None:
    """Tiles and warps are powers of two, and fit a program."""
    gpu = kernel.schedule.gpu
    for name in ("block", "rows", "num_warps"):
        value = getattr(gpu, name)
        if value < 0 or value & (value - 1):
            raise ProgramError(f"kernel {kernel.name}: {name} is {value}, not a power of two")
    if gpu.num_warps > MOST_WARPS or max(gpu.block, 1) * max(gpu.rows, 1) > LARGEST_TILE:
        raise ProgramError(f"kernel {kernel.name}: no program has so many warps, or so large a tile")
    if gpu.split < 0 or gpu.num_stages < 0:
        raise ProgramError(f"kernel {kernel.name}: a count is negative")


def sections(kernels: tuple[Kernel, ...], reads: Reads = MappingProxyType({})) -> list[str]:
    """Texts in order: what the kernels call on the device, then each kernel with its wrapper.

    Args:
        kernels: all kernels of a file.
        reads: layouts of what they read, for the docstrings of their wrappers.
    """
    printed = [(kernel, kernel_function(kernel)) for kernel in kernels]
    texts = [launch.function() for _, function in printed for launch in function.launches]
    parts = called_by(texts)
    for kernel, function in printed:
        parts += [launch.function() for launch in function.launches]
        parts.append(_wrapper(kernel, function, reads.get(kernel.name, ())))
    return parts


def _wrapper(kernel: Kernel, printed: GpuFunction, reads: Sequence[TensorSpec]) -> str:
    lines = folded(f"def {kernel.name}({', '.join(printed.inputs)}):")
    lines += docstring(kernel, printed.inputs, printed.outputs, reads)
    device = f"{printed.inputs[0]}.device"
    lines += [
        f"    {name} = {_allocation(spec, device)}"
        for name, spec in zip(printed.outputs, kernel.outputs, strict=True)
    ]
    lines += [
        f"    {name} = torch.empty({count}, dtype=torch.{dtype}, device={device})"
        for name, (count, dtype) in printed.workspaces.items()
    ]
    for launch in printed.launches:
        lines += [f"    {line}" for line in launch.call()]
    lines.append(f"    return {', '.join(printed.outputs)}")
    return "\n".join(lines)


def _allocation(spec: TensorSpec, device: str) -> str:
    given = f"dtype=torch.{spec.dtype}, device={device}"
    if spec.is_contiguous:
        return f"torch.empty({spelled(spec.shape)}, {given})"
    return f"torch.empty_strided({spelled(spec.shape)}, {spelled(spec.stride)}, {given})"
