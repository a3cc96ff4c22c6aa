"""The printer of the CUDA target: the same file as the CPU's, with Triton kernels."""

from __future__ import annotations

from kernelskill.program.program import Program
from kernelskill.program.triton.source import sections
from kernelskill.program.writer import Target, write
from kernelskill.records import Json, Task, Workload

TRITON = Target(sections=sections, imports=("import triton", "import triton.language as tl"), on_gpu=True)


class CudaPrinter:
    """`protocols.Printer` for the CUDA target."""

    def source(self, program: Json, task: Task, workload: Workload) -> str:
        """One readable file that defines `ModelNew`; it needs torch and triton.

        Raises:
            ProgramError: the program cannot be spelled.
        """
        return write(Program.model_validate(program), task, workload, TRITON)
