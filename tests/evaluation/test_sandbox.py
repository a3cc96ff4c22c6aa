"""What a candidate cannot reach, as far as the level says so."""

import os
import socket
import textwrap
from pathlib import Path

import pytest
from real_workers import LIMITS, load, start

from kernelskill.evaluation.filesystem import outermost
from kernelskill.evaluation.process import Limits, WorkerFailure
from kernelskill.evaluation.sandbox import Sandbox

_workers = {}
"""One worker per way, for all questions that need no other options."""
ORDER = ("plain", "partial", "full")


def ask(sandbox, body, **options):
    """Run statements in a candidate; what they raised as text ("" if nothing)."""
    source = f"{textwrap.dedent(body)}\ndef ModelNew(x):\n    return x\n"
    if options:
        with start(sandbox, **options) as worker:
            return _complaint(worker, source)
    if sandbox.way not in _workers:
        _workers[sandbox.way] = start(sandbox)
    return _complaint(_workers[sandbox.way], source)


def _complaint(worker, source):
    try:
        load(worker, source)
    except WorkerFailure as failure:
        return failure.detail
    return ""


@pytest.fixture(scope="module", autouse=True)
def _end_workers():
    yield
    for worker in _workers.values():
        worker.close()
    _workers.clear()


def test_the_level_is_what_the_probe_saw(any_sandbox):
    assert any_sandbox.level in ORDER
    assert any_sandbox.way == any_sandbox.layers[0] or any_sandbox.way == "plain"
    if any_sandbox.level == "full":
        assert all(any_sandbox.facts.values())


def test_probing_is_done_once():
    assert Sandbox.probe() is Sandbox.probe()


def test_without_any_way_the_level_is_plain_and_says_so():
    found = Sandbox.probe(frozenset({"bubblewrap", "namespaces", "landlock"}))
    assert (found.level, found.way) == ("plain", "plain")
    assert "limits" in found.layers


def needs(sandbox, fact):
    if not sandbox.facts.get(fact):
        pytest.skip(f"level {sandbox.level} does not claim it")


def test_the_users_files_cannot_be_read_or_listed(any_sandbox, tmp_path, monkeypatch):
    needs(any_sandbox, "files_hidden")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    monkeypatch.chdir(tmp_path)
    places = [str(secret), str(Path.home()), str(Path.home() / ".ssh"), "/etc/shadow", str(Path(__file__))]
    body = f"""
    import os
    seen = []
    for place in {places!r}:
        try:
            seen += [place] if os.path.isfile(place) and open(place, "rb").read(1) else []
            seen += [place + "/" + name for name in os.listdir(place) if os.path.isdir(place)]
        except OSError:
            pass
    raise ValueError("seen", os.getcwd(), seen)
    """
    detail = ask(any_sandbox, body)
    seen = detail.split("[", 1)[1].split("]", 1)[0]
    allowed = {
        str(Path.home() / part) for part in (".pyenv", ".local", "miniconda3")
    }  # where Python may live
    assert all(item.strip(" '") in allowed for item in seen.split(",") if item.strip()), detail
    assert str(tmp_path) not in detail.splitlines()[0]


def test_only_the_scratch_folder_can_be_written(any_sandbox, tmp_path):
    needs(any_sandbox, "files_hidden")
    import sys

    places = [sys.prefix, sys.base_prefix, str(Path(__file__).parent), str(tmp_path), "/usr/lib", "/etc", "/"]
    body = f"""
    import os
    open("here", "w").write("x")
    written = []
    for place in {places!r}:
        try:
            open(os.path.join(place, "kernelskill-mark"), "w").write("x")
            written.append(place)
        except OSError:
            pass
    if written:
        raise ValueError(written)
    """
    assert ask(any_sandbox, body) == ""


def test_scratch_space_is_limited(any_sandbox):
    limits = Limits(memory_bytes=6 << 30, cpu_s=30, processes=64, file_bytes=1 << 20)
    body = """
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    open("big", "wb").write(bytes(4 << 20))
    """
    assert "OSError" in ask(any_sandbox, body, limits=limits)


def test_the_network_is_out_of_reach(any_sandbox):
    needs(any_sandbox, "network_blocked")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        body = f"import socket\nsocket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), timeout=2)\n"
        assert "Error" in ask(any_sandbox, body)


def test_the_judge_cannot_be_seen_traced_or_killed(any_sandbox):
    needs(any_sandbox, "pids_hidden")
    body = f"""
    import os, ctypes
    pid = {os.getpid()}
    reached = []
    for act in (lambda: open(f"/proc/{{pid}}/environ").read(), lambda: open(f"/proc/{{pid}}/mem", "rb").read(1),
                lambda: os.kill(pid, 0)):
        try:
            act()
            reached.append(str(act))
        except OSError:
            pass
    if ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0:
        reached.append("ptrace")
    others = [name for name in os.listdir("/proc") if name.isdigit()]
    if reached or len(others) > 6:
        raise ValueError(reached, others)
    """
    assert ask(any_sandbox, body) == ""


def test_no_capability_is_left_and_none_can_be_won(any_sandbox):
    needs(any_sandbox, "no_capabilities")
    body = """
    import ctypes, os
    libc = ctypes.CDLL(None)
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status
    assert status["NoNewPrivs"].strip() == "1"
    try:
        os.setuid(0)
        assert os.getuid() != 0 or status["Uid"].split()[0] == "0"
    except OSError:
        pass
    assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0
    """
    assert ask(any_sandbox, body) == ""


def test_nothing_of_the_environment_is_inherited(any_sandbox, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    body = """
    import os
    assert "SECRET_TOKEN" not in os.environ
    assert os.environ["HOME"] == os.environ["TMPDIR"] == os.getcwd()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE" and os.environ["OMP_NUM_THREADS"] == "2"
    """
    assert ask(any_sandbox, body, limits=LIMITS) == ""


def test_what_a_kernel_needs_works_inside(any_sandbox):
    body = r"""
    import ctypes, subprocess
    open("k.cpp", "w").write('#include <omp.h>\nextern "C" int n() { int t = 0;'
                               '\n#pragma omp parallel reduction(+:t)\nt += 1;\nreturn t; }')
    subprocess.run(["g++", "-O3", "-fopenmp", "-shared", "-fPIC", "-o", "k.so", "k.cpp"], check=True)
    assert ctypes.CDLL("./k.so").n() == 2
    for device in ("null", "zero", "urandom"):
        open(f"/dev/{device}", "rb").read(1)
    """
    assert ask(any_sandbox, body) == ""


def test_a_reference_may_read_the_folders_that_it_names(any_sandbox, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "neighbour.py").write_text("VALUE = 3\n")
    for parent in [folder, *folder.parents]:
        if parent.owner() != "root" or parent == Path("/tmp"):
            break
        if parent.stat().st_mode & 0o005 != 0o005 and any_sandbox.own_user and any_sandbox.way == "landlock":
            pytest.skip("another user cannot pass the folders above")
    body = f"import sys\nsys.path.insert(0, {str(folder)!r})\nimport neighbour\nassert neighbour.VALUE == 3\n"
    assert ask(any_sandbox, body, readable=[folder], limits=LIMITS) == ""


def test_outermost_keeps_each_folder_once(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    paths = [str(inner), str(tmp_path / "a"), "/usr/lib", str(tmp_path / "missing"), str(inner)]
    assert outermost(paths) == [str(tmp_path / "a")]


@pytest.mark.parametrize("level", ["plain", "partial"])
def test_a_level_that_is_required_and_not_there_fails_closed(level):
    from kernelskill.config import Config, _require_level
    from kernelskill.errors import SandboxError

    weak = Sandbox("plain" if level == "plain" else "landlock", False, level, ("limits",))
    with pytest.raises(
        SandboxError, match=f"the sandbox here is {level} .*--require-sandbox full was asked for"
    ):
        _require_level(weak, Config(require_sandbox="full"))
    _require_level(weak, Config(require_sandbox=level))
