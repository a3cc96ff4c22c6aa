"""Kernels in CUDA C++ as parts of a candidate's file, beside kernels in Triton."""

from __future__ import annotations

from dataclasses import dataclass

from kernelskill.program.cuda.clusters import CAPABILITY, PACK_BYTES
from kernelskill.program.cuda.rows import ClusterRows
from kernelskill.program.program import Kernel
from kernelskill.program.triton.text import GpuFunction, Launch, Text


@dataclass(frozen=True)
class ClusterLaunch(Launch):
    """A function in CUDA C++ and how it is launched."""

    rows: ClusterRows | None = None

    def function(self) -> str:
        """Python that holds the text and compiles it when first called."""
        assert self.rows is not None
        text = f'{self.name}_text = r"""\n{self.rows.text()}"""'
        made = [
            f'{name} = CudaFunction("{name}", {self.name}_text, {CAPABILITY})'
            for name in (self.name, f"{self.name}_unaligned")
        ]
        return "\n".join([text, *made])

    def call(self) -> list[str]:
        """The statements that launch it."""
        assert self.rows is not None
        plan = self.rows.plan
        pointers = [f"{name}.data_ptr()" for name in self.pointers]
        packed = [f"{name}.data_ptr()" for name in self.pointers if name in plan.packed]
        return [
            f"aligned = ({' | '.join(packed)}) % {PACK_BYTES} == 0",
            f"launch = {self.name} if aligned else {self.name}_unaligned",
            "launch(",
            f"    {self.rows.blocks}, {plan.threads}, ({', '.join(pointers)},),",
            f"    shared_bytes={plan.shared_bytes}, cluster={plan.parts},",
            ")",
        ]


def cluster_function(kernel: Kernel) -> GpuFunction:
    """The launch of a kernel whose schedule asks for clusters.

    Raises:
        ProgramError: no cluster can hold its rows, or something in it is not printed.
    """
    rows = ClusterRows(kernel)
    launch = ClusterLaunch(
        f"_{kernel.name}", Text(), tuple(rows.operands), rows.blocks, rows.plan.threads // 32, rows=rows
    )
    return GpuFunction(
        launches=(launch,),
        inputs=tuple(item.name for item in rows.region.inputs),
        outputs=tuple(item.name for item in rows.region.outputs),
    )
