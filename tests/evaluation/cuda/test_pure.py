"""What can be checked of the GPU's side without a GPU."""

import ctypes
import os
import time

import pytest
import torch

from kernelskill.evaluation import correctness, families, summary
from kernelskill.evaluation.arms import calls_for
from kernelskill.evaluation.cuda.clocks import Clocks, hard_reasons
from kernelskill.evaluation.cuda.device import Cuda, flush_bytes
from kernelskill.evaluation.cuda.lease import Lease
from kernelskill.evaluation.labels import Knocked, labels_of, launch_bound
from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.rounds import Measured, _is_disturbed
from kernelskill.evaluation.sandbox import Limits, Sandbox, gpu_environment
from kernelskill.evaluation.seat import Burst
from kernelskill.evaluation.worker import driver
from kernelskill.evaluation.worker.graphs import _like
from kernelskill.evaluation.worker.kernels import LIBRARY
from kernelskill.records import TensorSpec, Workload

EMPTY = torch.empty(0, dtype=torch.uint8)


def workload(numel, eager_ms=0.02):
    spec = TensorSpec.contiguous((numel,))
    return Workload(
        inputs=(spec,), inputs_tree=None, outputs=(spec,), outputs_tree=None, state=(), eager_ms=eager_ms
    )


def test_driver_structures_have_the_headers_sizes():
    assert ctypes.sizeof(driver.IpcHandle) == 64
    assert ctypes.sizeof(driver._Properties) == 32
    assert ctypes.sizeof(driver._Access) == 12


def test_allocations_are_whole_granules():
    assert driver.rounded(0) == driver.rounded(1) == driver.GRANULE
    assert driver.rounded(driver.GRANULE) == driver.GRANULE
    assert driver.rounded(driver.GRANULE + 1) == 2 * driver.GRANULE


def test_no_driver_is_told_in_words(monkeypatch):
    driver.library.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: (_ for _ in ()).throw(OSError("not found")))
    with pytest.raises(driver.DriverError, match="no CUDA driver"):
        driver.library()
    driver.library.cache_clear()


@pytest.mark.parametrize(
    ("moved", "cache", "due"),
    [(400 << 20, 100 << 20, 0), (399 << 20, 100 << 20, 200 << 20), (1, 0, 128 << 20)],
)
def test_cache_is_flushed_unless_the_calls_do_it(moved, cache, due):
    assert flush_bytes(moved, cache) == due


@pytest.mark.parametrize(("numel", "calls"), [(1024, 128), (1 << 26, 8), (1_600_000_000, 1)])
def test_calls_by_size(numel, calls):
    assert calls_for(workload(numel), 130 << 30, Cuda) == calls


class Busy(Cuda):
    """A GPU on which products take as long as a script says."""

    def __init__(self, *seconds):
        self._seconds = list(seconds)
        self._work, self._work_s = torch.ones(1), 1e-3
        self._lease = Lease("GPU-busy")
        self._lease.hold = "alone"

    def _took_s(self):
        time.sleep(self._seconds[0])
        return self._seconds.pop(0)

    def settle(self):
        pass


def test_what_lingers_on_a_gpu_is_waited_for_and_told():
    alone = Busy(1e-3)
    assert alone.lingering_s() < 1e-3
    kept = Busy(0.02, 0.02, 1e-3)
    assert 0.04 <= kept.lingering_s() < 0.4
    assert kept._seconds == []
    beside = Busy()
    beside._lease.hold = "shared"
    assert beside.lingering_s() == 0, "who computes beside others does not ask"


def test_a_kernel_without_end_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("kernelskill.evaluation.cuda.device.LINGERS_S", 0.05)
    endless = Busy(*[0.02] * 100)
    assert endless.lingering_s() > 0.05
    assert endless._seconds


def lingered(late):
    found = Measured(calls=10)
    found.wall, found.worker = {arm: [1.0] for arm in late}, {arm: [0.9] for arm in late}
    found.null_wall, found.null_worker = [0.1], [0.1]
    found.late = {arm: [value] for arm, value in late.items()}
    return found


def test_work_that_is_left_behind_is_no_candidates_unless_stock_arms_leave_as_much():
    with pytest.raises(WorkerFailure, match="goes on computing after it has answered"):
        Busy().honest(lingered({"candidate": 30.0, "base": 30.0, "eager": 0.1}), "candidate", 1)
    Busy().honest(lingered({"candidate": 30.0, "eager": 29.5}), "candidate", 1)


def test_hard_throttling_only():
    assert hard_reasons(0x4) == ""
    assert hard_reasons(0x8 | 0x80) == "hardware slowdown, power brake"


def test_clocks_without_a_driver_say_why(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: (_ for _ in ()).throw(OSError("no nvml")))
    clocks = Clocks("GPU-0")
    assert clocks.problem == "no nvml"
    assert clocks.read().sm_mhz == 0


def test_throttled_rounds_are_disturbed():
    calm = Burst(1.0, 1.0, EMPTY)
    assert not _is_disturbed({"eager": calm})
    assert _is_disturbed({"eager": calm, "candidate": Burst(1.0, 1.0, EMPTY, throttled="power brake")})


def measured(candidate_wall, null_wall, mhz=(1980.0, 1980.0)):
    found = Measured(4)
    for _ in range(3):
        found.add(
            {
                "candidate": Burst(candidate_wall, 0.1, EMPTY, clock_mhz=mhz[0]),
                "eager": Burst(1.0, 0.9, EMPTY, clock_mhz=mhz[1]),
                "null": Burst(null_wall, 0.01, EMPTY),
            }
        )
    return found


def test_less_than_nothing_is_caught():
    device = Cuda.__new__(Cuda)
    device.honest(measured(0.5, 0.3), "candidate", 1)
    with pytest.raises(WorkerFailure, match="alone takes"):
        device.honest(measured(0.2, 0.3), "candidate", 1)
    behind = measured(1.5, 0.3)
    device.honest(behind, "candidate", 1)
    assert "own clock says 0.090 ms" in next(iter(behind.flags))


def test_the_larger_clock_ranks():
    found = measured(0.5, 0.3)
    assert found.times("candidate") == pytest.approx([0.2] * 3)
    assert measured(0.35, 0.3).times("candidate") == pytest.approx([0.09] * 3)


def test_clocks_apart_are_told():
    assert not summary.flags([measured(0.5, 0.3)], None)
    assert "clocks differ" in summary.flags([measured(0.5, 0.3, (1980.0, 1500.0))], None)[0]


def test_launch_bound_says_both_times():
    assert launch_bound({"device_us": 5.0, "call_us": 40.0}) == (
        "launch-bound: 5 us of kernels in a call of 40 us",
    )
    assert launch_bound({"device_us": 35.0, "call_us": 40.0}) == ()
    assert launch_bound({}) == launch_bound({"device_us": "x", "call_us": float("nan")}) == ()


def test_graphs_are_labelled():
    seen = {"graphed": True, "own_share_ratio": 0.9, "operators": [{"op": "my_kernel"}]}
    assert labels_of(seen, (), (), Knocked(same=False, call_us=None)).kinds == ("graph", "custom")
    assert labels_of(seen, (), ()).kinds == ("graph", "library")


@pytest.mark.parametrize(
    ("kernel", "known"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", True),
        ("sm90_xmma_gemm_f32f32_tf32f32", True),
        ("nvjet_hsh_128x256", True),
        ("fused_gelu_kernel", False),
        ("triton_poi_fused_gelu_0", False),
    ],
)
def test_library_kernels_by_name(kernel, known):
    assert bool(LIBRARY.search(kernel)) is known


def test_gpu_workers_see_one_gpu_and_no_address_limit(tmp_path):
    sandbox = Sandbox("landlock", False, gpu="GPU-7", own_network=True)
    limits = Limits(memory_bytes=0, cpu_s=1, processes=1, file_bytes=1)
    launch = sandbox.launch(host_scratch=tmp_path, limits=limits, plan={"role": "x", "threads": 1})
    assert launch.env["CUDA_VISIBLE_DEVICES"] == "GPU-7"
    assert launch.env["CUDA_CACHE_PATH"].startswith(str(tmp_path))
    assert "RLIMIT_AS" not in launch.argv[-1]
    assert '"network": true' in launch.argv[-1]


def test_toolkit_is_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = gpu_environment("GPU-7", "/usr/bin", "/c")
    assert found["PATH"] == f"{tmp_path}/bin:/usr/bin"


def test_own_network_has_no_way_out(tmp_path):
    """The launcher's empty network, tried without a GPU."""
    from kernelskill.evaluation.sandbox import attempt

    facts, reason = attempt(Sandbox("plain", False, own_network=True))
    if facts is None:
        pytest.skip(f"no network namespaces here: {reason}")
    assert facts["network_blocked"]
    assert not facts["pids_hidden"]


def test_pieces_judge_as_the_whole(monkeypatch):
    monkeypatch.setattr(correctness, "GPU_PIECE", 100)
    due = torch.randn(1000)
    near, far = due * (1 + 1e-6), due.clone()
    far[500] += 1
    for candidate in (near, far, due * float("nan")):
        whole = correctness.roughly_equal(candidate, due, 1e-5)
        assert correctness._roughly_equal_in_pieces(candidate, due, 1e-5) is whole


def test_families_draw_where_their_generator_is():
    one, two = torch.randn(64), None
    two = one.clone()
    families.apply("heavy-tail", [one], (0,), torch.Generator().manual_seed(3))
    stretch = torch.exp(torch.randn(64, generator=torch.Generator().manual_seed(3)).clamp(-3, 3))
    assert torch.equal(one, two * stretch)


def test_graph_inputs_keep_strides():
    leaf = torch.randn(4, 6).t()
    own = _like(leaf)
    assert own.stride() == leaf.stride()
    assert torch.equal(own, leaf)
    assert _like(torch.ones(1).expand(5)).stride() == (1,)
    assert _like("word") == "word"


def test_host_slots_hold_what_is_written():
    from kernelskill.evaluation.cuda.slots import HostSlot

    with HostSlot(16) as slot:
        slot.tensor().fill_(5)
        assert os.pread(slot.fd, 16, 0) == b"\5" * 16
        assert HostSlot(0).tensor().numel() == 0


def test_closed_folders_are_not_reachable(tmp_path):
    from kernelskill.evaluation.cuda.judge import is_reachable

    assert is_reachable(tmp_path.root and tmp_path.__class__("/usr/lib/nowhere"))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert not is_reachable(closed / "below")


def test_inputs_of_an_own_generator_are_drawn_on_the_cpu(monkeypatch):
    from kernelskill.evaluation.worker import inputs
    from kernelskill.evaluation.worker.session import Session

    session = Session(role="reference", scratch=None, threads=1, device="meta")
    calls = []

    def evaluated(_):
        calls.append(torch.empty(1).device.type)
        if calls[-1] == "meta":
            raise RuntimeError("Expected a 'meta' device type for generator but found 'cpu'")
        return torch.rand(2)

    monkeypatch.setattr(inputs, "evaluated", evaluated)
    one, two = (inputs._value(session, 5) for _ in range(2))
    assert calls == ["meta", "cpu"] * 2
    assert torch.equal(one, two)


def test_devices_make_tensors_at_home():
    from kernelskill.evaluation.worker.candidate import settled
    from kernelskill.evaluation.worker.session import Session

    session = Session(role="candidate", scratch=None, threads=1, device="meta")
    assert settled(session, lambda: torch.nn.Linear(2, 2)).weight.device.type == "meta"


def test_lost_context_closes_the_worker():
    """An answer that says so ends the worker at once, whatever it was asked."""
    from kernelskill.evaluation import process

    class Said:
        def ask(self, *_):
            return {"error": {"status": "runtime-error", "detail": "illegal address", "broken": True}}

        def close(self):
            pass

    worker = process.Worker.__new__(process.Worker)
    closed = []
    worker._channel, worker._greeted, worker._closed = Said(), True, False
    worker.close = lambda: closed.append(True)
    with pytest.raises(WorkerFailure, match="illegal address"):
        worker.call("run", timeout_s=1)
    assert closed


def test_bytes_are_compared_in_pieces(monkeypatch):
    from kernelskill.evaluation.cuda import seat

    monkeypatch.setattr(seat, "PIECE", 7)
    one = torch.arange(20, dtype=torch.uint8)
    two = one.clone()
    assert seat.same_bytes(one, two)
    two[19] = 0
    assert not seat.same_bytes(one, two)
