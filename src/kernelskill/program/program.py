"""The expert's program: a graph in which some nodes have become kernels."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from kernelskill.program.region import Region
from kernelskill.program.schedule import Schedule
from kernelskill.records import Graph, Json, Record, TensorSpec


class Template(Record):
    """A kernel that is not a loop nest over one space (scan, pooling): printed by `program.templates.<name>`."""

    name: str
    """Module under `program.templates`."""
    parameters: dict[str, Json]
    """What the template needs to know (axis, window, stride, ...)."""
    prologue: Region | None = None
    """Elementwise computation on each value read."""
    epilogue: Region | None = None
    """Elementwise computation on each value written."""


class Kernel(Record):
    """One function of ours."""

    name: str
    """Name of the C++ function and of its Python wrapper."""
    body: Region | Template
    schedule: Schedule = Schedule()
    outputs: tuple[TensorSpec, ...]
    """What the wrapper allocates, in order of the node's results."""
    computes: str = ""
    """What it computes, in words."""
    skills: tuple[str, ...] = ()
    """Skills that shaped it, in order."""

    @property
    def region(self) -> Region | None:
        """The loop nest, or None for a template."""
        return self.body if isinstance(self.body, Region) else None


class Program(Record):
    """A forward pass in which some calls are kernels of ours (nodes with op `kernel:<name>`)."""

    graph: Graph
    kernels: tuple[Kernel, ...] = ()
    skills: tuple[str, ...] = ()
    """All skills applied, in order."""
    wrapper: Literal["", "compile", "graph"] = ""
    """`compile`: the reference under torch.compile instead of the graph. `graph`: the program, replayed as one CUDA
    graph; the reference's own text where nothing in it is changed."""

    @classmethod
    def from_graph(cls, graph: Graph) -> Program:
        """The captured reference, nothing changed."""
        return cls(graph=graph)

    def kernel(self, name: str) -> Kernel:
        """One kernel by name. Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

    def with_kernel(self, kernel: Kernel) -> Program:
        """The program with one kernel of that name replaced."""
        kernels = tuple(kernel if item.name == kernel.name else item for item in self.kernels)
        return self.model_copy(update={"kernels": kernels})

    def with_skill(self, skill: str) -> Program:
        """The program with one more skill in its lineage."""
        return self.model_copy(update={"skills": (*self.skills, skill)})


def program_hash(program: Program) -> str:
    """Hash of what the program does and how; names of skills and words don't count."""
    meaning = {
        "graph": program.graph.model_dump(mode="json", exclude={"nodes": {"__all__": {"origin"}}}),
        "kernels": [
            kernel.model_dump(mode="json", exclude={"skills", "computes"}) for kernel in program.kernels
        ],
        "wrapper": program.wrapper,
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()
