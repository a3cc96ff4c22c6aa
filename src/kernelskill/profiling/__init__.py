"""Where the time of a candidate goes."""

from kernelskill.profiling.gpu import GpuProfiler
from kernelskill.profiling.profiler import CpuProfiler
from kernelskill.profiling.static import read_machine_code

__all__ = ["CpuProfiler", "GpuProfiler", "read_machine_code"]
