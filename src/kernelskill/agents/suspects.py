"""Which kernels of a failed candidate are to blame, and which edits shaped them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.protocols import SkillLibrary
from kernelskill.records import Edit, Evaluation, Graph, Json, Ref

OUTPUT = re.compile(r"output\[(\d+)\]")


def suspect_kernels(program: Program, evaluation: Evaluation) -> tuple[str, ...]:
    """Kernels that the verdict points at; all of them where it points at none.

    A kernel that is named in the detail, else those that feed a wrong result and no right one, else those that feed
    a wrong one.
    """
    names = tuple(kernel.name for kernel in program.kernels)
    named = tuple(name for name in names if re.search(rf"\b{re.escape(name)}\b", evaluation.detail))
    if named:
        return named
    wrong = [item.output for item in evaluation.errors if not item.passed]
    wrong += [f"output[{place}]" for place in OUTPUT.findall(evaluation.detail)]
    wrong += [path for path in program.graph.updates if path in evaluation.detail]
    right = {item.output for item in evaluation.errors} - set(wrong)
    feeding = _kernels_feeding(program.graph, wrong)
    return (
        _in_order(names, feeding - _kernels_feeding(program.graph, right))
        or _in_order(names, feeding)
        or names
    )


def makers(
    library: SkillLibrary, start: Json, edits: Sequence[Edit], kernels: Iterable[str]
) -> tuple[int, ...]:
    """Places of the edits that made or changed one of the kernels, latest first."""
    wanted = set(kernels)
    found: list[int] = []
    program, before = start, _kernels(start)
    for place, edit in enumerate(edits):
        try:
            program = library.apply(program, edit)
        except ProgramError:
            continue
        after = _kernels(program)
        if any(after.get(name) != before.get(name) for name in wanted):
            found.append(place)
        before = after
    return tuple(reversed(found))


def fitting(library: SkillLibrary, start: Json, edits: Iterable[Edit]) -> tuple[tuple[Edit, ...], Json]:
    """The edits that can be applied one after the other, and the program that they give."""
    program, kept = start, []
    for edit in edits:
        try:
            program = library.apply(program, edit)
        except ProgramError:
            continue
        kept.append(edit)
    return tuple(kept), program


def _kernels(program: Json) -> dict[str, Json]:
    return {kernel["name"]: kernel for kernel in program["kernels"]}


def _kernels_feeding(graph: Graph, results: Iterable[str]) -> set[str]:
    """Kernels that results depend on; a result is `output[k]`, the k-th tensor, or the path of a buffer."""
    tensors = [item for item in graph.outputs if isinstance(item, Ref)]
    by_name = {f"output[{place}]": ref for place, ref in enumerate(tensors)} | dict(graph.updates)
    needed = {by_name[name].node for name in results if name in by_name}
    kernels: set[str] = set()
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed |= {ref.node for ref in node.refs()}
            kernels |= {node.op.removeprefix("kernel:")} if node.op.startswith("kernel:") else set()
    return kernels


def _in_order(names: Iterable[str], chosen: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in chosen)
