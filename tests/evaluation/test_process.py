"""Real candidates in real workers: honest ones run, hostile and broken ones are named and leave nothing."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from real_workers import LIMITS, Bound, load, spec, start

from kernelskill.errors import WorkerError
from kernelskill.evaluation import processes
from kernelskill.evaluation.channel import Slot
from kernelskill.evaluation.process import Limits, WorkerFailure
from kernelskill.evaluation.sandbox import Sandbox
from kernelskill.records import Status

DOUBLE = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = factor
        self.register_buffer("offset", torch.zeros(8))
    def forward(self, x):
        return x * self.factor + self.offset
"""


def threads(worker):
    """Threads in a worker's whole tree now; launchers count one each."""
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in processes.living(worker.pid))


def forward(body, head=""):
    """A candidate with this forward."""
    text = textwrap.indent(textwrap.dedent(body), " " * 8)
    imports = "import torch, os, ctypes"
    return f"{textwrap.dedent(head)}\n{imports}\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n{text}\n"


def fails(sandbox, source, **options):
    """What a candidate that must fail is told to have done, and that nothing of it is left."""
    timeout_s = options.pop("timeout_s", 30)
    with start(sandbox, **options) as worker:
        try:
            load(worker, source, timeout_s=timeout_s)
            Bound(worker).run(timeout_s=timeout_s)
        except WorkerFailure as failure:
            return failure
    raise AssertionError("the candidate did not fail")


def refused(worker, source):
    """What a worker that lives on answers to a candidate that must fail."""
    with pytest.raises(WorkerFailure) as caught:
        load_and_run(worker, source)
    assert worker.alive
    return caught.value


def load_and_run(worker, source):
    load(worker, source)
    Bound(worker).run()


@pytest.fixture(scope="module")
def survivor():
    """One worker for all candidates that fail without dying."""
    with start(Sandbox.probe()) as worker:
        yield worker


def gone(pids):
    """Whether all these processes end soon."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.02)
    return False


def test_an_honest_candidate_runs_and_nothing_is_left(any_sandbox):
    start(any_sandbox).close()  # what starts workers stays, by design
    gc.collect()
    fds, files = len(os.listdir("/proc/self/fd")), set(os.listdir("/tmp"))
    with start(any_sandbox) as worker:
        load(worker, DOUBLE, init={"list": [{"value": 3.0}]})
        bound = Bound(worker)
        reply = bound.run()
        assert torch.equal(bound.outputs, 3 * bound.inputs)
        assert len(reply["times_us"]) == bound.count
        assert reply["flags"] == []
        bound.inputs.fill_(5)
        bound.run(order=[1])
        assert torch.equal(bound.outputs[1], torch.full((8,), 15.0))
        assert threads(worker) >= 2
        assert worker.cpu_seconds() > 0
        pids = processes.living(worker.pid)
        for slot in bound.slots:
            slot.close()
    assert gone(pids)
    assert not worker.alive
    del bound
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == fds
    assert {
        name
        for name in set(os.listdir("/tmp")) - files
        if name.startswith(f"kernelskill-worker-{os.getpid()}-")
    } == set()
    with pytest.raises(WorkerError, match="closed"):
        worker.call("ping", timeout_s=1)


def test_a_null_worker_copies_without_a_model(best):
    with start(best, "null") as worker:
        bound = Bound(worker)
        bound.run("null")
        assert torch.equal(bound.outputs, torch.zeros_like(bound.outputs))


def test_strides_offsets_and_empty_tensors_arrive(best):
    source = """
def ModelNew(a, b, *, scale):
    return (a * scale).t().contiguous(), b.clone(), a.stride(0)
"""
    with start(best) as worker, Slot(4096) as inputs, Slot(4096) as outputs:
        load(worker, source)
        values = torch.frombuffer(inputs.view(), dtype=torch.float32)
        values.copy_(torch.arange(1024.0))
        given, taken = worker.give(inputs, writable=False), worker.give(outputs, writable=True)
        worker.call(
            "bind",
            timeout_s=5,
            count=1,
            tree={"dict": {"a": {"tensor": 0}, "b": {"tensor": 1}, "scale": {"value": 2}}},
            inputs=[
                {"slot": given, "spec": spec(3, 4, stride=(1, 3)), "offset": 64},
                {"slot": given, "spec": spec(0, 5), "offset": 0},
            ],
            outputs=[
                {"slot": taken, "spec": spec(4, 3), "offset": 256},
                {"slot": taken, "spec": spec(0, 5), "offset": 0},
                {"slot": taken, "spec": spec(dtype="int64"), "offset": 1024},
            ],
            outputs_tree={"tuple": [{"tensor": 0}, {"tensor": 1}, {"number": 2, "type": "int"}]},
        )
        worker.call("run", timeout_s=5, order=[0])
        found = torch.frombuffer(outputs.view(), dtype=torch.float32, offset=256, count=12).view(4, 3)
        assert torch.equal(found, 2 * values[16:28].view(4, 3))
        assert torch.frombuffer(outputs.view(), dtype=torch.int64, offset=1024, count=1).item() == 1


def test_state_is_written_and_read_by_name(best):
    with start(best) as worker, Slot(32) as slot:
        names = load(worker, DOUBLE)["names"]
        assert names == {"parameters": [], "buffers": ["offset"]}
        values = torch.frombuffer(slot.view(), dtype=torch.float32)
        values.fill_(10)
        number = worker.give(slot, writable=True)
        told = {"slot_ids": [number], "specs": [spec(8)]}
        reply = worker.call("state", timeout_s=5, names=["offset"], write=True, **told)
        assert (reply["missing"], reply["extra"]) == ([], [])
        bound = Bound(worker)
        bound.run()
        assert torch.equal(bound.outputs, 2 * bound.inputs + 10)
        reply = worker.call("state", timeout_s=5, names=["shift"], write=True, **told)
        assert (reply["missing"], reply["extra"]) == (["shift"], ["offset"])
        values.zero_()
        reply = worker.call("state", timeout_s=5, names=["shift"], write=False, by_shape=True, **told)
        assert reply["matched"] == {"shift": "offset"}
        assert torch.equal(values, torch.full((8,), 10.0))


def test_operators_and_steps_are_seen(best):
    source = forward("return torch.relu(scale(x))", "def scale(x):\n    return x * 2\n")
    with start(best) as worker:
        load(worker, source)
        bound = Bound(worker, numel=4096)
        bound.run()
        seen = worker.call("operators", timeout_s=60)
        assert {row["op"] for row in seen["operators"]} >= {"aten::mul", "aten::relu"}
        assert seen["own_code"] is False
        assert seen["compiled"] is False
        assert seen["static_output"] is False
        steps = worker.call("profile", timeout_s=60, kernels=["scale", "nothing"], repeats=3)
        assert steps["unknown"] == ["nothing"]
        assert len(steps["kernels"]["scale"]["times_us"]) == 3
        assert steps["kernels"]["scale"]["count"] == steps["one_thread"]["kernels"]["scale"]["count"] == 1
        assert min(steps["calls_us"]) > 0


@pytest.mark.parametrize(
    ("body", "kept"), [("return overwritten(x)", True), ("return x * 2", False), ("return x", False)]
)
def test_a_result_that_the_next_call_overwrites_is_seen(best, body, kept):
    helper = "def overwritten(x, held=[]):\n    held or held.append(x * 2)\n    return torch.mul(x, 2, out=held[0])\n"
    with start(best) as worker:
        load(worker, forward(body, helper))
        Bound(worker, numel=4096).run()
        assert worker.call("operators", timeout_s=60)["static_output"] is kept


def test_turned_settings_and_threads_are_shown(best):
    source = forward("""
        import threading, time
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        return x * 2
    """)
    with start(best) as worker:
        load(worker, source)
        bound = Bound(worker, count=1)
        before = threads(worker)
        reply = bound.run()
        assert [flag.split(":")[0] for flag in reply["flags"]] == ["num_threads", "default_dtype"]
        assert threads(worker) > before


@pytest.mark.parametrize(
    ("source", "status", "word"),
    [
        ("def broken(:\n", Status.BUILD_ERROR, "SyntaxError"),
        ("import nothing_like_this\n", Status.BUILD_ERROR, "nothing_like_this"),
        ("x = 1\n", Status.BUILD_ERROR, "defines no ModelNew"),
        ("ModelNew = 3\n", Status.BUILD_ERROR, "not a class or function"),
        (
            "import subprocess\nsubprocess.run(['g++', 'missing.cpp'], check=True)\n",
            Status.BUILD_ERROR,
            "g++",
        ),
        (
            "class ModelNew:\n    def __init__(self):\n        frobnicate()\n",
            Status.RUNTIME_ERROR,
            "frobnicate",
        ),
        ("class ModelNew:\n    def __init__(self, a):\n        pass\n", Status.RUNTIME_ERROR, "'a'"),
        ("import sys\nsys.exit(0)\n", Status.BUILD_ERROR, "SystemExit"),
        ("import ctypes\nctypes.CDLL('/nowhere/kernel.so')\n", Status.BUILD_ERROR, "kernel.so"),
        (forward("return x.frob()"), Status.RUNTIME_ERROR, "frob"),
        (forward("return torch.ones(1 << 45)"), Status.OUT_OF_MEMORY, "memory"),
        (forward("return x[:4]"), Status.WRONG_SHAPE, "[4], should be [8]"),
    ],
)
def test_broken_sources_are_told_in_their_own_words(survivor, source, status, word):
    failure = refused(survivor, source)
    assert failure.status is status
    assert word in failure.detail
    assert "kernelskill_worker" not in failure.detail


def test_a_missing_name_is_hinted_and_the_frames_are_the_candidates(survivor):
    failure = refused(survivor, forward("return helper(x)", "def helper(x):\n    return tl.load(x)\n"))
    assert "'tl'" in failure.hint
    assert "candidate_source.py" in failure.detail
    assert "runner.py" not in failure.detail


def test_the_worker_lives_on_after_errors(survivor):
    refused(survivor, "import nothing_like_this\n")
    load(survivor, DOUBLE)
    Bound(survivor).run()


@pytest.mark.parametrize(
    ("source", "status", "word"),
    [
        ("import ctypes\nctypes.string_at(0)\n", Status.CRASHED, "SIGSEGV"),
        ("import os\nos._exit(0)\n", Status.CRASHED, "exit code 0"),
        ("import os\nos._exit(7)\n", Status.CRASHED, "exit code 7"),
        ("import os\nos.abort()\n", Status.CRASHED, "SIGABRT"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", Status.OUT_OF_MEMORY, "memory"),
        ("while True: pass\n", Status.TIMEOUT, "within 3 s"),
        ("import ctypes\nctypes.CDLL(None).pause()\n", Status.TIMEOUT, "within 3 s"),
        (forward("x.mul_(2)\nreturn x"), Status.CRASHED, "SIGSEGV"),
        (forward("ctypes.memset(x.data_ptr(), 0, 4)\nreturn x"), Status.CRASHED, "SIGSEGV"),
    ],
)
def test_deaths_and_hangs_are_named(best, source, status, word):
    failure = fails(best, source, timeout_s=3)
    assert failure.status is status
    assert word in failure.detail


@pytest.mark.parametrize("end", ["ctypes.string_at(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_deaths_look_the_same_under_every_way(any_sandbox, best, end):
    source = f"import ctypes, os\n{end}\n"
    found, due = fails(any_sandbox, source), fails(best, source)
    assert (found.status, found.detail.splitlines()[0]) == (due.status, due.detail.splitlines()[0])


def test_a_crash_names_the_line_and_the_likely_cause(best):
    failure = fails(best, forward("ctypes.memset(x.data_ptr(), 0, 4)\nreturn x"))
    assert "candidate_source.py" in failure.detail
    assert "read-only" in failure.hint


def test_an_endless_loop_in_native_code_is_ended(sandbox):
    source = """
    import subprocess, ctypes
    open("spin.cpp", "w").write('extern "C" void spin() { volatile int on = 1; while (on) {} }')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", "spin.so", "spin.cpp"], check=True)
    ctypes.CDLL("./spin.so").spin()
    """
    assert fails(sandbox, textwrap.dedent(source), timeout_s=5).status is Status.TIMEOUT


def test_processor_time_is_limited(best):
    limits = Limits(memory_bytes=6 << 30, cpu_s=4, processes=64, file_bytes=1 << 20)
    assert fails(best, "while True: pass\n", limits=limits).status is Status.TIMEOUT


def test_a_memory_bomb_is_stopped(sandbox):
    limits = Limits(memory_bytes=3 << 30, cpu_s=30, processes=64, file_bytes=1 << 20)
    failure = fails(sandbox, "held = []\nwhile True:\n    held.append(bytearray(64 << 20))\n", limits=limits)
    assert failure.status is Status.OUT_OF_MEMORY


def test_a_fork_bomb_is_bounded(best):
    if best.level != "full":
        pytest.skip("processes are only bounded per worker at the full level")
    source = """
    import os, time
    made = 0
    try:
        for _ in range(500):
            if os.fork() == 0:
                time.sleep(60)
            made += 1
    except OSError:
        pass
    raise ValueError(f"made {made}")
    """
    with start(best) as worker:
        with pytest.raises(WorkerFailure) as caught:
            load(worker, textwrap.dedent(source))
        made = int(caught.value.detail.split("made ")[1].split()[0])
        assert 1 < made <= LIMITS.processes
        assert len(processes.living(worker.pid)) > made
        pids = processes.living(worker.pid)
    assert gone(pids)


def test_a_flood_of_output_neither_blocks_nor_grows(sandbox):
    source = """
import sys
for _ in range(1600):
    sys.stdout.write("x" * 65536)
print("the end", flush=True)
"""
    with start(sandbox) as worker:
        load(worker, source + DOUBLE)
        bound = Bound(worker)
        bound.run()
        assert torch.equal(bound.outputs, 2 * bound.inputs)
        deadline = time.monotonic() + 5
        while not worker.output.endswith("the end\n") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert worker.output.endswith("the end\n")
        assert len(worker.output) <= 16 << 10


RUNAWAY = (
    """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True: time.sleep(0.01)
    os._exit(0)
"""
    + DOUBLE
)


def test_children_that_ran_away_are_frozen_counted_and_killed(any_sandbox):
    with start(any_sandbox) as worker:
        worker.ready()
        before = len(processes.living(worker.pid))
        load(worker, RUNAWAY)
        time.sleep(0.2)
        pids = processes.living(worker.pid)
        assert len(pids) == before + 1
        worker.freeze()
        states = {Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in pids}
        assert states == {"T"}
        worker.thaw()
        Bound(worker).run()
    assert gone(pids)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_children_of_a_candidate_that_died_are_killed_too(any_sandbox, end):
    with start(any_sandbox) as worker:
        load(worker, f"{RUNAWAY}\nimport os\nModelNew.forward = lambda self, x: {end}\n")
        pids = processes.living(worker.pid)
        with pytest.raises(WorkerFailure):
            Bound(worker).run()
        assert gone(pids)


def test_a_frozen_worker_does_not_write(sandbox):
    source = forward("return x", "") + textwrap.dedent("""
    import threading
    views = []
    def scribble():
        count = 0
        while True:
            for view in views:
                count += 1
                view.fill_(count % 1000)
    threading.Thread(target=scribble, daemon=True).start()
    import gc
    def hunt():
        for thing in gc.get_objects():
            if type(thing).__name__ == "BoundCall":
                views.extend(thing.outputs)
    ModelNew.forward = lambda self, x: (hunt(), x)[1]
    """)
    with start(sandbox) as worker:
        load(worker, source)
        bound = Bound(worker)
        bound.run()
        time.sleep(0.05)
        worker.freeze()
        first = bound.outputs.clone()
        time.sleep(0.05)
        assert torch.equal(bound.outputs, first)
        worker.thaw()
        time.sleep(0.05)
        assert not torch.equal(bound.outputs, first)


def test_answers_from_the_candidate_itself_are_refused(sandbox):
    source = """
    import os, struct, json
    body = json.dumps({"id": "0" * 16, "result": {"names": {}}}).encode()
    for fd in range(3, 64):
        try:
            os.write(fd, struct.pack("<I", len(body)) + body)
        except OSError:
            pass
    """
    failure = fails(sandbox, textwrap.dedent(source))
    assert failure.status is Status.INTEGRITY


def test_a_slot_lent_read_only_is_never_lent_writable(best):
    with start(best) as worker, Slot(64) as slot:
        worker.give(slot, writable=False)
        with pytest.raises(ValueError, match="sealed"):
            worker.give(slot, writable=True)


def test_a_cache_outlives_its_worker_and_the_scratch_does_not(best, tmp_path):
    source = """
import os
open(os.environ["TORCHINDUCTOR_CACHE_DIR"] + "-mark", "a").write("x")
def ModelNew(x): return x
"""
    for _ in range(2):
        with start(best, "compile", trusted_cache=tmp_path / "cache") as worker:
            load(worker, source)
    assert (tmp_path / "cache" / "inductor-mark").read_text() == "xx"


def test_a_killed_judge_leaves_no_worker(any_sandbox, tmp_path):
    script = f"""
    import sys, time
    sys.path[:0] = {sys.path!r}
    from kernelskill.evaluation.sandbox import Sandbox
    from real_workers import load, start
    from test_process import RUNAWAY
    from kernelskill.evaluation import processes
    ways = {{"bubblewrap", "namespaces", "landlock"}}
    sandbox = Sandbox.probe(frozenset(ways - {{{any_sandbox.way!r}}}))
    worker = start(sandbox)
    load(worker, RUNAWAY)
    print(*processes.living(worker.pid), worker._scratch, flush=True)
    time.sleep(60)
    """
    judge = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    *pids, scratch = judge.stdout.readline().split()
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdout.close()
    assert len(pids) >= 3
    assert gone(pids)
    deadline = time.monotonic() + 5
    while Path(scratch).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(scratch).exists()
