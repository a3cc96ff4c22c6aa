"""The judge's way through a GPU evaluation, with workers and memory of the CPU in place of the GPU's."""

import pytest
import torch
from gpu_tasks import candidate_of, task_of

from kernelskill.evaluation import process
from kernelskill.evaluation.channel import Slot
from kernelskill.evaluation.cuda import seat
from kernelskill.evaluation.cuda.clocks import Clocks
from kernelskill.evaluation.cuda.device import Cuda
from kernelskill.evaluation.cuda.lease import Lease
from kernelskill.evaluation.device import CPU
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.sandbox import Sandbox

FRAGILE = """
import os, torch
class Model(torch.nn.Module):
    def forward(self, x):
        if float(x.abs().max()) > 6:
            os._exit(3)
        return torch.tanh(x) * 2 + x
def get_init_inputs():
    return []
def get_inputs():
    return [torch.rand(128, 128)]
"""
MINE = FRAGILE.replace("class Model", "class ModelNew")
IN_PLACE = MINE.replace("return torch", "x.mul_(2); return torch")


class Shared(Slot):
    """Like a GPU's memory: nobody can be kept from writing."""

    def seal_for_reader(self):
        pass


class Pretended(Cuda):
    def __init__(self):
        self.index, self.properties, self.uuid = 0, None, "GPU-pretended"
        self.clocks, self.way, self.passed_over = Clocks(self.uuid), "", ()
        self._lease, self._shared, self._reserved = Lease(self.uuid), {}, {}
        self.chilled = []

    def meet(self, worker):
        worker.ready()
        self.way = "host"

    def slot(self, nbytes):
        return Shared(nbytes)

    def private(self, tensor):
        return tensor.clone()

    def settle(self):
        pass

    trim = rouse = enter = settle

    def lingering_s(self):
        return 0.0

    def chill(self, moved):
        self.chilled.append(moved)

    def generator(self, seed):
        return torch.Generator().manual_seed(seed)

    def free_bytes(self):
        return CPU.free_bytes()

    def is_crowded(self, moved):
        return False


class HostTorch:
    def __getattr__(self, name):
        return getattr(torch, name)

    def empty(self, *sizes, device=None, **settings):
        return torch.empty(*sizes, **settings)


@pytest.fixture
def judge(monkeypatch, tmp_path):
    start = process.Worker.__init__

    def on_cpu(self, role, **settings):
        start(self, role, **{**settings, "device": "cpu"})

    lend = process.Worker.give
    monkeypatch.setattr(
        process.Worker, "give", lambda self, slot, *, writable: lend(self, slot, writable=True)
    )
    monkeypatch.setattr(process.Worker, "__init__", on_cpu)
    monkeypatch.setattr(seat, "torch", HostTorch())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = Judge(
        task_of(FRAGILE, "fragile"),
        sandbox=Sandbox.probe(),
        device=Pretended(),
        cache_dir=tmp_path,
        patience_s=15,
        threads=1,
    )
    yield made
    made.close()


@pytest.mark.slow
def test_a_whole_evaluation(judge):
    workload = judge.describe()
    assert not any(item.fatal for item in workload.findings), workload.findings
    known = judge.baselines()
    assert "eager" in {item.arm for item in known.timings}
    assert "Stream" in known.unavailable["graph"]
    side = judge._need.side
    first = side.worker
    found = judge.screen(candidate_of(MINE), None)
    assert found.status.value == "passed", found.detail
    families = {item.family for item in found.errors}
    assert "signed" in families
    assert "heavy-tail" not in families, "it takes the reference down"
    assert side.worker is not first, "the reference was started anew"
    assert judge._need._spare is not None
    spare = judge._need._spare
    assert judge.screen(candidate_of(IN_PLACE), None).status.value == "integrity"
    assert not spare.alive, "each candidate's worker is used once"
    shared = {id(slot) for other in judge._need.seats.values() for slot in other._slots}
    assert len(shared) == 2, "arms of ours share one input and one output"
    assert judge.device.chilled, "the judge empties the cache, not the worker"
