"""Real workers on a real GPU."""

import gpu_candidates as candidates
import pytest
import torch
from gpu_tasks import candidate_of, task_of

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    from kernelskill.evaluation.cuda.judge import cuda_judge

    made = cuda_judge(task_of(), cache_dir=tmp_path_factory.mktemp("cache"), patience_s=15)
    workload = made.describe()
    assert not any(item.fatal for item in workload.findings), workload.findings
    made.baselines()
    yield made
    made.close()


def screened(judge, source):
    return judge.screen(candidate_of(source), None)


def right(judge):
    found = screened(judge, candidates.EAGER)
    assert found.status.value == "passed", found.detail
    return found


def test_every_way_of_memory():
    from kernelskill.evaluation.cuda.confine import sandbox_for
    from kernelskill.evaluation.cuda.device import Cuda
    from kernelskill.evaluation.cuda.slots import WAYS, try_way
    from kernelskill.evaluation.process import Limits
    from kernelskill.evaluation.stock_worker import StockWorker

    limits = Limits(memory_bytes=0, cpu_s=600, processes=256, file_bytes=1 << 30)
    sandbox = sandbox_for(Cuda().uuid)
    with StockWorker("null", sandbox=sandbox, limits=limits, threads=2, device="cuda") as worker:
        said = {way: try_way(worker, way) for way in WAYS}
    assert said["host"] == ""
    assert not (said["descriptor"] and said["ipc"]), said


def test_two_allocations_share_no_memory():
    from kernelskill.evaluation.worker import driver

    one, two = driver.Physical(100), driver.Physical(100)
    assert abs(one.address - two.address) >= driver.GRANULE


def test_all_arms_run(judge):
    known = judge._baselines
    assert {"eager", "compile", "graph", "compile+graph"} == {item.arm for item in known.timings}, (
        known.unavailable
    )


def test_eager_is_no_faster_than_itself(judge):
    found = right(judge)
    assert found.speedup("eager") is not None
    assert not any(item.significant for item in found.comparisons)


def test_triton_is_custom(judge):
    found = screened(judge, candidates.TRITON)
    assert found.status.value == "passed", found.detail
    assert found.labels.operators


@pytest.mark.parametrize("name", ["WRONG", "CACHED", "SIDE_STREAM", "IN_PLACE"])
def test_wrong_results_are_refused(judge, name):
    assert screened(judge, getattr(candidates, name)).status.value in ("wrong-values", "integrity")


def test_faked_events_gain_nothing(judge):
    found = screened(judge, candidates.FAKED_EVENTS)
    assert not any(item.significant for item in found.comparisons)


def test_illegal_address_then_a_good_one(judge):
    assert screened(judge, candidates.ILLEGAL).status.value in ("runtime-error", "crashed")
    torch.ones(1, device="cuda").sum().item()
    right(judge)


def test_endless_kernel_then_a_good_one(judge):
    assert screened(judge, candidates.ENDLESS).status.value == "timeout"
    right(judge)


def test_out_of_memory_then_a_good_one(judge):
    assert screened(judge, candidates.HUNGRY).status.value == "out-of-memory"
    right(judge)


FRAGILE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.binary_cross_entropy(torch.sigmoid(x), y, reduction="none") + x
def get_init_inputs():
    return []
def get_inputs():
    return [torch.randn(512, 512), torch.rand(512, 512)]
"""


def test_families_that_kill_the_reference_are_passed_over(tmp_path):
    """Targets outside of [0, 1] fail an assert on the device, after which the process can compute nothing."""
    from kernelskill.evaluation.cuda.judge import cuda_judge

    judge = cuda_judge(task_of(FRAGILE, "bce"), cache_dir=tmp_path, patience_s=15)
    try:
        judge.describe()
        judge.baselines()
        source = FRAGILE.replace("class Model", "class ModelNew")
        found = judge.screen(candidate_of(source), None)
        assert found.status.value == "passed", found.detail
    finally:
        judge.close()
