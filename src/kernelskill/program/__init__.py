"""The expert's program: captured graph, regions, rewrites, templates, printers, and the writer of candidates."""

from kernelskill.program.program import Kernel, Program, Template, program_hash
from kernelskill.program.region import Region
from kernelskill.program.schedule import Schedule
from kernelskill.program.writer import CpuPrinter, write

__all__ = ["CpuPrinter", "Kernel", "Program", "Region", "Schedule", "Template", "program_hash", "write"]
