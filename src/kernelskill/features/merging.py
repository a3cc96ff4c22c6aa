"""What merging kernels can save at most, by the times that they take."""

from __future__ import annotations

from kernelskill.features.equal_kernels import kernel_steps
from kernelskill.records import Profile


def merge_saving_ratio(profile: Profile | None) -> float | None:
    """Share of a call that kernels of ours take, all but the longest of them; None where that was not measured.

    A kernel that takes another one in still does its own work, so no merging saves more: neither that of a pair, whose
    value is no longer written and read, nor a rewriting of them all into the longest.
    """
    times = [step.time_us for step in kernel_steps(profile).values()]
    if profile is None or not profile.total_us or not times:
        return None
    return min(1.0, (sum(times) - max(times)) / profile.total_us)
