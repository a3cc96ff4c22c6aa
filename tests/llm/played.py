"""The loop with the model's real roles, real access, memory, gate and journal; only the judge's clock is scripted.

A candidate's text says what the judge is to find: `MS = 0.8` is correct and takes that long, `STATUS = "crashed"` fails.
Run as a program it plays one run to its end, so that it can be killed: `played.py FOLDER MODEL SECONDS_A_SCREEN`.
"""

import re
import sys
import time
from pathlib import Path

from kernelskill.agents import ExpertDiagnoser
from kernelskill.agents.llm import (
    ModelDiagnoser,
    ModelFeatureReader,
    ModelGenerator,
    ModelOptimizer,
    ModelPlanner,
    ModelRepairer,
    Scene,
)
from kernelskill.features import ExpertFeatureReader
from kernelskill.journal import Journal, load_run
from kernelskill.llm import open_access
from kernelskill.loop import Parts, optimize
from kernelskill.memory import RunMemory
from kernelskill.records import (
    Baselines,
    Budget,
    Ceilings,
    Comparison,
    Evaluation,
    Floor,
    Graph,
    GraphInput,
    Interval,
    Node,
    Profile,
    Ref,
    Reference,
    Run,
    Status,
    StepProfile,
    Task,
    TensorSpec,
    Timing,
    Workload,
)  # fmt: skip
from kernelskill.records.model import ModelSettings
from kernelskill.report import SilentProgress
from kernelskill.search import GreedyStrategy
from kernelskill.skills import ExpertLibrary

SPEC = TensorSpec.contiguous((64, 1024))
SOURCE = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x.tanh() + x.exp()\n"
TASK = Task(
    name="bell", hash="ab" * 32, origin="bell.py",
    reference=Reference(loader="source", kind="module", entry="Model", source=SOURCE),
)  # fmt: skip
GRAPH = Graph(
    inputs=(GraphInput(name="x", spec=SPEC, leaf=0),), state=(),
    nodes=(
        Node(name="tanh", op="aten.tanh.default", args=(Ref(node="x"),), outputs=(SPEC,)),
        Node(name="exp", op="aten.exp.default", args=(Ref(node="x"),), outputs=(SPEC,)),
        Node(name="add", op="aten.add.Tensor", args=(Ref(node="tanh"), Ref(node="exp")), outputs=(SPEC,)),
    ),
    outputs=(Ref(node="add"),), outputs_tree={"tensor": 0},
)  # fmt: skip
CEILINGS = Ceilings(
    device="a processor", threads=2, bandwidth_gb_per_s={"32768": 300.0, "268435456": 20.0}, fp32_gflops=300.0,
    exp_gops=10.0, parallel_us=10.0, call_us=1.0, operator_us=3.0, measured_on="2026-01-01",
)  # fmt: skip
STOCK_MS = 1.0


def timing(arm, ms):
    return Timing(arm=arm, median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),))


class ScriptedJudge:
    def __init__(self, screen_s=0.0):
        self.screen_s = screen_s
        self.judged = []

    def describe(self):
        return Workload(
            inputs=(SPEC,), inputs_tree={"list": [{"tensor": 0}]}, outputs=(SPEC,), outputs_tree={"tensor": 0},
            state=(), eager_ms=1.0, graph=GRAPH,
        )  # fmt: skip

    def adopt(self, workload, baselines, floor_ms=None):
        pass

    def baselines(self):
        return Baselines(
            timings=(timing("eager", STOCK_MS),), best_arm="eager", noise_band_ratio=0.02, null_ms=0.0
        )

    def screen(self, candidate, base):
        time.sleep(self.screen_s)
        self.judged.append(candidate.id)
        return self._verdict(candidate, "screen", base)

    def promote(self, candidate):
        return self._verdict(candidate, "promotion", None)

    def _verdict(self, candidate, stage, base):
        status = re.search(r'^STATUS = "(.+)"', candidate.source, re.MULTILINE)
        if status:
            return Evaluation(
                candidate_id=candidate.id, source_hash=candidate.source_hash, stage=stage,
                status=Status(status[1]), detail=f"scripted {status[1]}",
            )  # fmt: skip
        ms = claimed(candidate)
        arms = {"eager": STOCK_MS} | ({"base": claimed(base)} if base else {})
        return Evaluation(
            candidate_id=candidate.id, source_hash=candidate.source_hash, stage=stage, status=Status.PASSED,
            timings=(timing("candidate", ms),), noise_band_ratio=0.02,
            comparisons=tuple(
                Comparison(
                    arm=arm, speedup=Interval(low=value / ms * 0.99, value=value / ms, high=value / ms * 1.01),
                    rounds=9, sets=1, significant=value / ms > 1.03,
                )
                for arm, value in arms.items()
            ),
        )  # fmt: skip


def claimed(candidate):
    return float(re.search(r"^MS = (.+)$", candidate.source, re.MULTILINE)[1])


class ScriptedMachine:
    """Floor and profile: half of a call is one kernel of our own that waits, the rest library operators."""

    def ceilings(self):
        return CEILINGS

    def floor(self, workload):
        return Floor(
            bytes_min=1, flops=1, transcendentals=0, launches=3, memory_ms=0.05, compute_ms=0, overhead_ms=0,
            floor_ms=0.05, bound="memory",
        )  # fmt: skip

    def profile(self, candidate):
        us = claimed(candidate) * 1e3
        return Profile(
            kind="timeline", total_us=us,
            steps=(
                StepProfile(name="bell", kind="kernel", time_us=us / 2, calls=1, one_thread_us=us / 2),
                StepProfile(name="aten.add.Tensor", kind="operator", time_us=us / 2, calls=1),
            ),
        )  # fmt: skip


def play(folder, settings, judge=None, around=lambda parts, workload: parts, **budget):
    """One run in a folder, begun or resumed; gives the run as its folder tells it, and the judge.

    Args:
        around: other roles around the model's.
    """
    judge, machine = judge or ScriptedJudge(), ScriptedMachine()
    limits = Budget(**{"rounds": 2, "seeds": 1, "seconds": None, **budget})
    manifest = Run(
        id=folder.name, created="2026-01-01", task=TASK, target="cpu", budget=limits, config={}, machine={}
    )
    journal = Journal(folder) if folder.exists() else Journal.create(folder, manifest)
    library, memory = ExpertLibrary(None), RunMemory()

    def assemble(workload):
        scene = Scene(
            model=open_access(settings, folder), settings=settings, task=TASK, workload=workload,
            ceilings=CEILINGS, shelf=library, memory=memory, target="cpu", repairs=limits.repairs,
        )  # fmt: skip
        parts = Parts(
            floor=machine, profiler=machine, library=library, memory=memory, strategy=GreedyStrategy(),
            features=ModelFeatureReader(scene, ExpertFeatureReader(CEILINGS, "cpu")),
            generator=ModelGenerator(scene, library), planner=ModelPlanner(scene), optimizer=ModelOptimizer(scene),
            diagnoser=ModelDiagnoser(scene, ExpertDiagnoser()), repairer=ModelRepairer(scene),
        )  # fmt: skip
        return around(parts, workload)

    try:
        optimize(TASK, judge, assemble, limits, journal, SilentProgress())
    finally:
        journal.close()
    return load_run(folder), judge


if __name__ == "__main__":
    play(
        Path(sys.argv[1]),
        ModelSettings(model=sys.argv[2], timeout_s=60),
        ScriptedJudge(float(sys.argv[3])),
        rounds=3,
    )
