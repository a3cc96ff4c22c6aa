"""Kernels in Triton: regions and templates as device functions, for GPUs of compute capability 8.0 and later."""

from kernelskill.program.triton.printer import CudaPrinter
from kernelskill.program.triton.source import kernel_function, sections

__all__ = ["CudaPrinter", "kernel_function", "sections"]
