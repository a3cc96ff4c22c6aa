"""Where the time of a candidate goes on a GPU: device times from a profiling worker, and what the compiler gave."""

from __future__ import annotations

from collections.abc import Mapping

from kernelskill.errors import KernelSkillError
from kernelskill.profiling import raw
from kernelskill.profiling.profiler import kernel_names
from kernelskill.protocols import Evaluator
from kernelskill.records import Candidate, Json, Profile, Scalar

RESOURCES = {"registers": "registers", "spills": "spills", "shared_bytes": "shared_bytes", "warps": "warps"}
"""Name in the worker's reply -> fact."""


class GpuProfiler:
    """Profiles on a GPU by torch.profiler's timeline; goes on with less when something is not available."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def profile(self, candidate: Candidate) -> Profile:
        """A timeline of kernels and operators; kind "static" when nothing could be timed."""
        reply: Json = None
        note = ""
        try:
            reply = self._evaluator.profile(candidate, kernel_names(candidate))
            total, steps = raw.total_us(reply), raw.steps(reply)
        except KernelSkillError as error:
            total, steps, note = None, (), f"no step times: {error}"
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # the worker is not trusted
            total, steps, note = None, (), f"no step times: its reply is not understood ({error!r})"
        if total is None and not note:
            why = reply.get("error") if isinstance(reply, dict) else None
            note = f"no step times: {why or 'the profiling worker gave none'}"
        return Profile(
            kind="static" if total is None else "timeline",
            total_us=total,
            steps=steps,
            static=resources(reply),
            note=note,
        )


def resources(reply: Json) -> dict[str, dict[str, Scalar]]:
    """Registers, spills, shared memory and warps of each kernel, where they are numbers."""
    told = reply.get("resources") if isinstance(reply, Mapping) else None
    found: dict[str, dict[str, Scalar]] = {}
    for kernel, values in told.items() if isinstance(told, Mapping) else ():
        known = values if isinstance(values, Mapping) else {}
        found[str(kernel)] = {
            fact: int(known[name])
            for name, fact in RESOURCES.items()
            if isinstance(known.get(name), int) and known[name] >= 0
        }
    return found
