"""Where the time of a candidate goes on a CPU: step times from a profiling worker, and facts from the machine code."""

from __future__ import annotations

import ast

from kernelskill.errors import KernelSkillError
from kernelskill.profiling import raw
from kernelskill.profiling.static import read_machine_code
from kernelskill.protocols import Evaluator
from kernelskill.records import Candidate, Json, Profile


class CpuProfiler:
    """Profiles on the evaluator's target; goes on with less when something is not available."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def profile(self, candidate: Candidate) -> Profile:
        """A timeline of kernels and operators; kind "static" when nothing could be timed."""
        kernels = kernel_names(candidate)
        notes = []
        reply: Json = None
        try:
            reply = self._evaluator.profile(candidate, kernels)
        except KernelSkillError as error:
            notes.append(f"no step times: {error}")
        try:
            total, steps = raw.total_us(reply), raw.steps(reply)
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # the worker is not trusted
            total, steps = None, ()
            notes.append(f"no step times: the profiling worker's reply is not understood ({error!r})")
        if total is None and not notes:
            why = reply.get("error") if isinstance(reply, dict) else None
            notes.append(f"no step times: {why or 'the profiling worker gave none'}")
        static, note = read_machine_code(candidate.source, kernels) if kernels else ({}, "")
        notes += [note] if note else []
        return Profile(
            kind="static" if total is None else "timeline",
            total_us=total,
            steps=steps,
            static=static,
            note="; ".join(notes),
        )


def kernel_names(candidate: Candidate) -> tuple[str, ...]:
    """Functions worth timing: the program's kernels, or the public functions of a source without a program."""
    if isinstance(candidate.program, dict):
        return tuple(kernel["name"] for kernel in candidate.program.get("kernels", ()))
    try:
        tree = ast.parse(candidate.source)
    except SyntaxError:
        return ()
    return tuple(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    )
