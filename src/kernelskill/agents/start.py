"""The program that first versions start from, and when two programs are the same."""

from __future__ import annotations

from kernelskill.program.program import Program, program_hash
from kernelskill.records import Graph, Json, Workload

_NOTHING = Graph(inputs=(), state=(), nodes=(), outputs=(), outputs_tree=None)


def captured(workload: Workload) -> Json:
    """The captured reference; without a capture an empty program, which only a wrapper can make whole."""
    return Program.from_graph(workload.graph or _NOTHING).model_dump(mode="json")


def is_whole(program: Json, workload: Workload) -> bool:
    """Whether the program computes what the reference does: captured, or wrapped as it is."""
    return workload.graph is not None or bool(program["wrapper"])


def hash_of(program: Json) -> str:
    """`program_hash` of a program as JSON."""
    return program_hash(Program.model_validate(program))


def is_same(one: Json, other: Json) -> bool:
    """Whether two programs as JSON do the same in the same way, whatever skills they credit; spares the hash."""
    if one["graph"] != other["graph"] or one["wrapper"] != other["wrapper"]:
        return False
    kernels = [[{**kernel, "skills": None} for kernel in program["kernels"]] for program in (one, other)]
    return kernels[0] == kernels[1]
