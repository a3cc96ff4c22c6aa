"""First look at a new GPU machine, piece by piece: `python tests/evaluation/cuda/smoke.py` (under 2 minutes).

Every line is one piece with its time; the first FAIL names the piece that does not work here, with the traceback.
"""

import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gpu_candidates as candidates
import torch
from gpu_tasks import candidate_of, task_of

from kernelskill.evaluation.cuda.confine import sandbox_for
from kernelskill.evaluation.cuda.device import Cuda
from kernelskill.evaluation.cuda.judge import cuda_judge
from kernelskill.evaluation.cuda.slots import WAYS, try_way
from kernelskill.evaluation.process import Limits
from kernelskill.evaluation.stock_worker import StockWorker
from kernelskill.evaluation.worker import driver

LIMITS = Limits(memory_bytes=0, cpu_s=600, processes=256, file_bytes=1 << 30, start_s=60.0)
FOUND = {}


def piece(name):
    def run(step):
        began = time.monotonic()
        try:
            said = step()
        except KeyError as missing:
            print(f"skip {name}: needs {missing}", flush=True)
            return
        except Exception:  # noqa: BLE001  the next pieces may still work
            print(f"FAIL {name} ({time.monotonic() - began:.1f} s)", flush=True)
            traceback.print_exc()
            return
        print(f"ok   {name} ({time.monotonic() - began:.1f} s) {said or ''}", flush=True)

    return run


@piece("device, clocks")
def _():
    FOUND["device"] = device = Cuda()
    return (
        f"{device.uuid}, {device.clocks.read()}, {device.clocks.problem or 'nvml'}, torch {torch.__version__}"
    )


@piece("memory by descriptor, within this process")
def _():
    mine = driver.Physical(1 << 20)
    fd = mine.export()
    other = driver.Physical(1 << 20, fd)
    driver.bytes_of(mine, 100).fill_(3)
    assert (driver.bytes_of(other, 100) == 3).all(), "the second mapping shows something else"
    return f"descriptor {fd}"


@piece("sandbox")
def _():
    FOUND["sandbox"] = sandbox = sandbox_for(FOUND["device"].uuid)
    return f"{sandbox.level}: {', '.join(sandbox.layers)}"


@piece("worker starts, memory reaches it")
def _():
    said = []
    with StockWorker("null", sandbox=FOUND["sandbox"], limits=LIMITS, threads=2, device="cuda") as worker:
        began = time.monotonic()
        worker.ready()
        said.append(f"up after {time.monotonic() - began:.1f} s")
        said += [f"{way}: {try_way(worker, way) or 'works'}" for way in WAYS]
        FOUND["device"].meet(worker)
    return "; ".join(said)


@piece("describe")
def _():
    FOUND["judge"] = judge = cuda_judge(
        task_of(), sandbox=FOUND["sandbox"], cache_dir=Path(tempfile.mkdtemp()), patience_s=15, progress=print
    )
    work = judge.describe()
    FOUND["workload"] = work
    return f"eager {work.eager_ms:.3f} ms, findings {[item.message for item in work.findings]}, graph {work.capture_error or 'ok'}"


@piece("baselines")
def _():
    found = FOUND["judge"].baselines()
    times = {item.arm: (round(item.median_ms, 4), round(item.worker_ms, 4)) for item in found.timings}
    return f"{times} band {found.noise_band_ratio:.4f} null {found.null_ms:.4f} ms; {found.unavailable}"


def screen(name, source, due):
    @piece(f"screen {name}")
    def _():
        found = FOUND["judge"].screen(candidate_of(source, name), None)
        said = f"{found.status.value} {found.detail[:300]!r} {found.machine_s} s"
        if found.timings:
            times = {item.arm: (round(item.median_ms, 4), round(item.worker_ms, 4)) for item in found.timings}
            said += f" {times} {found.speedup('eager')} {found.labels}"
        assert found.status.value in due, f"due {due}: {said}"
        return said


if __name__ == "__main__":
    screen("eager", candidates.EAGER, ("passed",))
    screen("triton", candidates.TRITON, ("passed",))
    screen("wrong", candidates.WRONG, ("wrong-values",))
    screen("cached", candidates.CACHED, ("wrong-values",))
    screen("in place", candidates.IN_PLACE, ("integrity",))
    screen("side stream", candidates.SIDE_STREAM, ("wrong-values", "integrity"))
    screen("faked events", candidates.FAKED_EVENTS, ("passed", "integrity"))
    screen("illegal address", candidates.ILLEGAL, ("runtime-error", "crashed"))
    screen("eager after that", candidates.EAGER, ("passed",))
    if "--all" in sys.argv:
        screen("endless", candidates.ENDLESS, ("timeout",))
        screen("hungry", candidates.HUNGRY, ("out-of-memory",))
        screen("eager after those", candidates.EAGER, ("passed",))
    if "judge" in FOUND:
        FOUND["judge"].close()
