"""Models with one scan or pooling, as programs whose core is a template."""

from __future__ import annotations

from typing import Any

from small_programs import Case, Computes, export

from kernelskill.program.program import Program
from kernelskill.program.templates.pool_sites import fuse_pool, pool_sites
from kernelskill.program.templates.scan_sites import fuse_scan, scan_sites
from kernelskill.records import Graph

WIDTHS = (128, 256, 512)


class TemplateCase(Case):
    """Fuses its only scan or pooling, and nothing else."""

    def fuse(self, graph: Graph | None = None) -> None:
        program = Program.from_graph(graph or export(self.model.train(), self.inputs))
        for scan in scan_sites(program):
            program = fuse_scan(program, scan, self.name)
        for pool in pool_sites(program):
            program = fuse_pool(program, pool, self.name)
        (kernel,) = program.kernels
        schedule = kernel.schedule.model_copy(update=self.schedule)
        self.program = program.with_kernel(kernel.model_copy(update={"schedule": schedule}))


def cases(kind: str, table: dict[str, tuple[Any, ...]]) -> list[Case]:
    """Name -> (function, inputs...); the widths of registers take turns."""
    return [
        TemplateCase(
            f"{kind}_{name}",
            Computes(function),
            [tensor.clone() for tensor in inputs],
            schedule={"vector_bits": WIDTHS[turn % 3]},
        )
        for turn, (name, (function, *inputs)) in enumerate(table.items())
    ]
