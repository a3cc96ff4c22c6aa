"""The recorded kernels, as records of the project."""

import json
from dataclasses import dataclass
from pathlib import Path

from kernelskill.features.bounds import FULL_WARPS, counted_facts, expected_bound
from kernelskill.features.kernel_facts import Load, measured_facts
from kernelskill.profiling import counters, ncu
from kernelskill.records import Ceilings, StepProfile

DATA = Path(__file__).parent / "data"
RECORDING = json.loads((DATA / "recording.json").read_text())
CEILINGS = Ceilings(
    device=RECORDING["device"]["name"], threads=1, measured_on=RECORDING["device"]["date"], **RECORDING["ceilings"]
)  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """One kernel, seen in three ways."""

    name: str
    about: dict

    @property
    def text(self):
        return (DATA / f"{self.name}.csv").read_text()

    @property
    def counted(self):
        found = ncu.read_log(self.text, ())
        assert found.fault is None, found.fault
        return found

    @property
    def load(self):
        names = ("read_bytes", "written_bytes", "transcendentals", "flops")
        return Load(**{name: int(self.about[name]) for name in names})

    def counter_facts(self):
        values = counters.combined([launch.values for launch in self.counted.launches])
        found = counted_facts(counters.facts(values), self.load, is_map=self.about["is_map"])
        return {**counters.resources(values), **self.about["resources"], **found}

    def timeline_facts(self):
        kernels = self.about["timeline"]["kernels"]
        step = StepProfile(name="k", kind="kernel", time_us=sum(item["time_us"] for item in kernels), calls=1)
        total, is_map = self.about["timeline"]["call_us"], self.about["is_map"]
        return measured_facts(step, self.load, CEILINGS.call_us, CEILINGS, total, is_map=is_map)

    def expected(self):
        """What is told without running it; the grid is the source's own, for kernels of ours."""
        fill = None
        if self.about["resources"] and not self.about["is_map"]:
            programs = (
                self.counter_facts()["waves"] * self.resident_warps() * RECORDING["device"]["multiprocessors"]
            )
            fill = programs / FULL_WARPS
        return expected_bound(self.load, CEILINGS.call_us, CEILINGS, fill)

    def resident_warps(self):
        """Warps that a multiprocessor holds at a time."""
        (launch,) = self.counted.launches
        programs = min(launch.values[f"limit_{name}"] for name in counters.LIMITS)
        return programs * -(-int(launch.values["launch_threads"]) // 32)


KERNELS = {about["name"]: Recorded(about["name"], about) for about in RECORDING["kernels"]}
