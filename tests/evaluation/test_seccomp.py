"""The filter on system calls: its form, and what it refuses and lets through inside a worker."""

import platform

import pytest
from real_workers import load, start

from kernelskill.evaluation.process import WorkerFailure
from kernelskill.evaluation.worker import seccomp

LOAD, EQUAL, LEAST, ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
TRIED = """
import ctypes, os, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def tried(number, *arguments):
    return -ctypes.get_errno() if libc.syscall(number, *arguments) < 0 else 0
def family(name):
    try:
        socket.socket(getattr(socket, name), socket.SOCK_DGRAM).close()
        return 0
    except OSError as error:
        return -error.errno
"""


def run(program, *, machine, number, first=0, arch=None):
    """Interpret the filter on one call; what it returns."""
    data = {0: number, 4: seccomp.AUDIT_ARCH[machine] if arch is None else arch, 16: first}
    at = value = 0
    while True:
        code, yes, no, constant = program[at]
        at += 1
        if code == RETURN:
            return constant
        if code == LOAD:
            value = data[constant]
        else:
            held = {EQUAL: value == constant, LEAST: value >= constant, ANY: bool(value & constant)}[code]
            at += yes if held else no


@pytest.mark.parametrize("machine", seccomp.DENIED)
def test_the_filter_refuses_what_is_listed_and_nothing_else(machine):
    program = seccomp.rules(machine)
    refused = seccomp.DENIED[machine] | seccomp.EVERYWHERE
    for name, number in refused.items():
        assert run(program, machine=machine, number=number) == seccomp.ERRNO | 1, name
    for name, number in seccomp.ABSENT.items():
        assert run(program, machine=machine, number=number) == seccomp.ERRNO | 38, name
    known = {*refused.values(), *seccomp.ABSENT.values(), seccomp.SOCKET[machine], seccomp.CLONE[machine]}
    for number in set(range(460)) - known:
        assert run(program, machine=machine, number=number) == seccomp.ALLOW


@pytest.mark.parametrize("machine", seccomp.DENIED)
def test_sockets_and_clones_are_looked_at_by_their_first_argument(machine):
    program, socket, clone = seccomp.rules(machine), seccomp.SOCKET[machine], seccomp.CLONE[machine]
    assert run(program, machine=machine, number=socket, first=1) == seccomp.ALLOW
    for family in (2, 10, 16, 17, 38, 40):
        assert run(program, machine=machine, number=socket, first=family) == seccomp.ERRNO | 1
    threads, newuser = 0x3D0F00, 0x10000000
    assert run(program, machine=machine, number=clone, first=threads) == seccomp.ALLOW
    assert run(program, machine=machine, number=clone, first=newuser | 17) == seccomp.ERRNO | 1


def test_other_interfaces_of_the_processor_are_closed():
    program = seccomp.rules("x86_64")
    assert run(program, machine="x86_64", number=1, arch=0x40000003) == seccomp.KILL
    assert run(program, machine="x86_64", number=seccomp.X32 | 1) == seccomp.ERRNO | 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of calls are x86-64's")
def test_a_worker_is_refused_what_is_listed_and_can_work_all_the_same(any_sandbox):
    body = (
        TRIED
        + """
assert [tried(n, 0, 0, 0, 0, 0) for n in (101, 323, 298, 250, 321, 272)] == [-1] * 6
assert tried(425, 1, 0) == -38
assert tried(56, 0x10000000 | 17, 0, 0, 0, 0) == -1
assert [family(name) for name in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET")] == [-1] * 4
assert family("AF_UNIX") == 0
done = []
thread = threading.Thread(target=done.append, args=(1,))
thread.start()
thread.join()
assert done and subprocess.run(["true"]).returncode == 0
class ModelNew:
    pass
"""
    )
    with start(any_sandbox) as worker:
        load(worker, body)


def test_the_level_tells_of_the_filter(best):
    assert best.facts["calls_filtered"] is seccomp.is_known()
    assert ("calls filtered" in best.layers) is seccomp.is_known()


def test_the_runner_still_reports_a_failed_call(best):
    with start(best) as worker, pytest.raises(WorkerFailure, match="Operation not permitted"):
        load(worker, "import socket\nsocket.socket()\n")
