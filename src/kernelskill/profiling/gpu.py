"""Where the time of a candidate goes on a GPU: hardware counters, device times, and what the compiler gave.

Times come from a profiling worker, counters from ncu around another one. Each may be missing: the profile says what it
rests on and why it has no more, and the loop goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kernelskill.errors import KernelSkillError
from kernelskill.profiling import counters, ncu, raw
from kernelskill.profiling.counting import Counting
from kernelskill.profiling.profiler import kernel_names
from kernelskill.profiling.ptx import code_facts
from kernelskill.protocols import Evaluator
from kernelskill.records import Candidate, Json, Profile, Scalar, StepProfile

RESOURCES = {"registers": "registers", "spills": "spills", "shared_bytes": "shared_bytes", "warps": "warps"}
"""Name in the worker's reply -> fact."""


class GpuProfiler:
    """Profiles by ncu's counters and torch.profiler's timeline; goes on with less when something is not available.

    Args:
        evaluator: who runs candidates.
        counters: whether to ask for counters at all.
    """

    def __init__(self, evaluator: Evaluator, *, counters: bool = True) -> None:
        self._evaluator = evaluator
        self._counting = Counting(evaluator) if counters else None

    def profile(self, candidate: Candidate) -> Profile:
        """Kind "counters" where the hardware counted, else a timeline of kernels and operators, else "static"."""
        names = kernel_names(candidate)
        reply, total, steps, no_times = self._times(candidate, names)
        static = resources(reply)
        if total is None:
            return Profile(kind="static", total_us=None, steps=(), static=static, note=no_times)
        launches, no_counters = (
            self._counting.of(candidate) if self._counting else ((), "no counters: switched off")
        )
        counted = by_kernel(launches, names)
        for kernel, values in counted.items():
            static[kernel] = {**counters.resources(values), **static.get(kernel, {})}
        return Profile(
            kind="counters" if counted else "timeline",
            total_us=total,
            steps=steps,
            static=static,
            counters={kernel: counters.facts(values) for kernel, values in counted.items()},
            note=no_counters,
        )

    def _times(
        self, candidate: Candidate, names: Sequence[str]
    ) -> tuple[Json, float | None, tuple[StepProfile, ...], str]:
        """The worker's reply, time of a call, steps, and why there are none."""
        reply: Json = None
        try:
            reply = self._evaluator.profile(candidate, names)
            total, steps = raw.total_us(reply), raw.steps(reply)
        except KernelSkillError as error:
            return None, None, (), f"no step times: {error}"
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # the worker is not trusted
            return reply, None, (), f"no step times: its reply is not understood ({error!r})"
        if total is None:
            why = reply.get("error") if isinstance(reply, dict) else None
            return reply, None, (), f"no step times: {why or 'the profiling worker gave none'}"
        return reply, total, steps, ""


def by_kernel(launches: Sequence[ncu.Launch], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Combined counters of each kernel; launches of none of the names stand under their function's own name."""
    found: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for launch in launches:
        function = ncu.function_name(launch.kernel)
        found[owner(function, names) or function].append(launch.values)
    return {kernel: counters.combined(values) for kernel, values in found.items()}


def owner(function: str, names: Sequence[str]) -> str:
    """The kernel that a device function belongs to by its name (`name`, `_name`, `_name_part`); "" = none."""
    owners = [name for name in names if function in (name, f"_{name}") or function.startswith(f"_{name}_")]
    return max(owners, key=len, default="")


def resources(reply: Json) -> dict[str, dict[str, Scalar]]:
    """What the compiler gave to each kernel: its resources where they are numbers, and facts from its PTX."""
    told = reply.get("resources") if isinstance(reply, Mapping) else None
    found: dict[str, dict[str, Scalar]] = {}
    for kernel, values in told.items() if isinstance(told, Mapping) else ():
        known = values if isinstance(values, Mapping) else {}
        found[str(kernel)] = {
            fact: int(known[name])
            for name, fact in RESOURCES.items()
            if isinstance(known.get(name), int) and known[name] >= 0
        }
        ptx = known.get("ptx")
        if isinstance(ptx, str) and ptx:
            found[str(kernel)] |= code_facts(ptx)
    return found
