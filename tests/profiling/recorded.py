"""The recorded kernels, as records of the project."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from kernelskill.features.bounds import FULL_WARPS, counted_facts, expected_bound, issue_us, waves_ratio
from kernelskill.features.kernel_facts import Load, measured_facts, occupancy_ratio
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
    def is_ours(self):
        """Whether its source is here; a library's functions have neither code nor plan that could be read."""
        return bool(self.about["resources"] or self.about["code"])

    @property
    def calls(self):
        """Launches of a call."""
        return max(1, round(sum(item["count"] for item in self.about["timeline"]["kernels"])))

    @property
    def load(self):
        """Work of one launch."""
        names = ("read_bytes", "written_bytes", "transcendentals", "flops")
        return Load(**{name: int(self.about[name]) // self.calls for name in names})

    @property
    def launch(self):
        """Threads of a program, programs, registers and shared memory of the longest launch, as torch.profiler tells."""
        seen = max(self.about["timeline"]["launches"], key=lambda item: item["time_us"])
        return {**seen, "threads": math.prod(seen["block"]), "programs": math.prod(seen["grid"])}

    @property
    def warps(self):
        """Warps of the longest launch, all programs together."""
        return self.launch["programs"] * -(-self.launch["threads"] // 32)

    @property
    def waves(self):
        launch = self.launch
        fits = occupancy_ratio(launch["registers"], launch["shared_bytes"], -(-launch["threads"] // 32))
        return waves_ratio(self.warps / FULL_WARPS, fits)

    @property
    def issued_us(self):
        return issue_us(self.about["code"], self.load, CEILINGS) if self.about["is_map"] else None

    def counter_facts(self):
        values = counters.combined([launch.values for launch in self.counted.launches])
        whole = self.load.model_copy(
            update={name: int(self.about[name]) for name in ("read_bytes", "written_bytes")}
        )
        found = counted_facts(counters.facts(values), whole, is_map=self.about["is_map"])
        # What was launched goes before what was compiled, which knows nothing of dynamic shared memory.
        return {**self.about["resources"], **counters.resources(values), **found}

    def timeline_facts(self):
        kernels = self.about["timeline"]["kernels"]
        time_us = sum(item["time_us"] for item in kernels)
        step = StepProfile(name="k", kind="kernel", time_us=time_us, calls=self.calls)
        total, is_map = self.about["timeline"]["call_us"], self.about["is_map"]
        return measured_facts(
            step, self.load, CEILINGS.call_us, CEILINGS, total,
            is_map=is_map, waves=self.waves, issued_us=self.issued_us,
        )  # fmt: skip

    def expected(self):
        """What is told of a kernel of ours without running it; None of a library's, whose code nobody reads."""
        return self.by_work() if self.is_ours else None

    def by_work(self):
        """Class by mathematics, and by plan and code where there are any."""
        if not self.is_ours:
            return expected_bound(self.load, CEILINGS.call_us, CEILINGS)
        fill = None if self.about["is_map"] else self.warps / FULL_WARPS
        return expected_bound(self.load, CEILINGS.call_us, CEILINGS, fill, self.issued_us)

    def views(self):
        """Class by counters, by the clock, by code and plan."""
        return (
            self.counter_facts()["counted_bound"],
            self.timeline_facts()["kernel_bound"],
            self.expected(),
        )


KERNELS = {about["name"]: Recorded(about["name"], about) for about in RECORDING["kernels"]}
