"""A profile in which each of several equal kernels, which are printed as one function, has its share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kernelskill.program.equal_kernels import printed_as
from kernelskill.program.program import Kernel
from kernelskill.records import Profile, StepProfile


def of_each_kernel(profile: Profile, kernels: Sequence[Kernel]) -> Profile:
    """The profile with what is known of a printed function said of all kernels that it stands for.

    Where functions were timed under each name, nothing changes. Where time is counted by what ran on the device, all
    calls are the printed kernel's, and each of the equal ones gets an equal share.
    """
    printed = printed_as(kernels)
    alike: dict[str, list[str]] = defaultdict(list)
    for name, first in printed.items():
        alike[first].append(name)
    timed = {step.name for step in profile.steps if step.kind == "kernel"}
    steps: list[StepProfile] = []
    for step in profile.steps:
        names = [name for name in alike.get(step.name, []) if name == step.name or name not in timed]
        if step.kind != "kernel" or len(names) < 2:
            steps.append(step)
            continue
        steps += [_share(step, name, len(names)) for name in names]
    static = {name: profile.static[first] for name, first in printed.items() if first in profile.static}
    counters = {name: profile.counters[first] for name, first in printed.items() if first in profile.counters}
    return profile.model_copy(
        update={
            "steps": tuple(steps),
            "static": {**profile.static, **static},
            "counters": {**profile.counters, **counters},
        }
    )


def kernel_steps(profile: Profile | None) -> dict[str, StepProfile]:
    """Measured kernels of ours by name; none without a profile."""
    return {step.name: step for step in profile.steps if step.kind == "kernel"} if profile else {}


def _share(step: StepProfile, name: str, count: int) -> StepProfile:
    """One of so many equal parts of a step."""
    single = step.one_thread_us
    return step.model_copy(
        update={
            "name": name,
            "time_us": step.time_us / count,
            "calls": max(1, round(step.calls / count)),
            "one_thread_us": None if single is None else single / count,
        }
    )
