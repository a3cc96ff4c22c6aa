"""Counting through a confined worker, with a stand-in for ncu and the CPU in place of a GPU."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_tasks import candidate_of, task_of

from kernelskill.evaluation import profiles
from kernelskill.evaluation.arms import Table
from kernelskill.evaluation.cuda import counters, ncu
from kernelskill.evaluation.judge import Judge
from kernelskill.evaluation.sandbox import Sandbox, attempt

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_init_inputs():
    return []
def get_inputs():
    return [torch.randn(8, 8)]
"""
SPEAKS = """
import socket, torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.shape == (8, 8)
        with socket.create_connection(("127.0.0.1", int(open("port").read()))) as ncu:
            ncu.sendall(b"hello")
        return torch.relu(x)
"""
RAISES = """
class ModelNew:
    def __call__(self, x):
        raise ValueError("not today")
"""
METRIC = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


@pytest.fixture(scope="module")
def workload():
    judge = Judge(task_of(REFERENCE))
    try:
        return judge.describe()
    finally:
        judge.close()


@pytest.fixture
def table(workload, tmp_path, monkeypatch):
    """A table whose sandbox is the one of the GPU, as far as it can be had here, and an ncu."""
    sandbox = next(
        (found for way in ("landlock", "plain") if attempt(found := Sandbox(way, False, own_network=True))[0]), None
    )  # fmt: skip
    if sandbox is None:
        pytest.skip("no network namespaces here")
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    stand_in = Path(__file__).with_name("stand_in_ncu.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(counters, "_works", {})
    return Table(task_of(REFERENCE), workload, sandbox, 1, tmp_path, 2, 20.0)


def test_ncu_reaches_a_worker_in_an_empty_network(table):
    reply = counters.count(table, candidate_of(SPEAKS), (METRIC,))
    assert "error" not in reply
    assert "exit code 0, heard ['hello']" in reply["log"]
    assert f'"ID","Kernel Name","{METRIC}"' in reply["log"]
    assert counters._works == {table.sandbox.gpu: table.sandbox.way}


def test_a_candidate_that_fails_is_told_beside_what_was_counted(table):
    reply = counters.count(table, candidate_of(RAISES), (METRIC,))
    assert "not today" in reply["error"]


def test_what_ncu_says_about_names_is_handed_on_at_once(table):
    reply = counters.count(table, candidate_of(SPEAKS), ("nosuch__metric.sum",))
    assert "Failed to find metric" in reply["log"]


def test_without_a_table_the_end_of_what_was_said_is_the_reason(table):
    reply = counters.count(table, candidate_of(SPEAKS), ("silent__metric.sum",))
    assert "counted no kernel" in reply["error"]
    assert "Connected to process" in reply["error"]


def test_an_ncu_that_does_not_end_is_ended_with_all_below_it(table):
    began = time.monotonic()
    reply = counters.count(replace(table, patience_s=1.0), candidate_of(SPEAKS), ("endless__metric.sum",))
    assert reply["error"] == "ncu took longer than 1 s"
    assert time.monotonic() - began < 30
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"endless__metric" in line for line in running)


def test_what_is_too_large_to_be_replayed_is_not_counted(table, monkeypatch):
    monkeypatch.setattr(counters, "MOST_BYTES", 100)
    assert "too much to be replayed" in counters.count(table, candidate_of(SPEAKS), (METRIC,))["error"]


def test_where_there_is_no_ncu_nothing_is_started(table, monkeypatch):
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    assert counters.count(table, candidate_of(SPEAKS), (METRIC,)) == {
        "log": "",
        "error": "ncu is not installed",
    }


@pytest.mark.parametrize(
    ("sandbox", "ways"),
    [
        (Sandbox("landlock", True, own_network=True), ["landlock", "plain"]),
        (Sandbox("landlock", False, own_network=True), ["landlock"]),
        (Sandbox("landlock", True), []),
        (Sandbox("plain", True, own_network=True), ["plain"]),
        (Sandbox("namespaces", True), []),
        (Sandbox("bubblewrap", False), []),
    ],
)
def test_a_worker_is_never_given_more_than_its_own_user_and_an_empty_network(sandbox, ways, monkeypatch):
    monkeypatch.setattr(counters, "_works", {})
    found = counters._ways(sandbox)
    assert [item.way for item in found] == ways
    assert all(
        item.own_user == sandbox.own_user and item.own_network == sandbox.own_network for item in found
    )


def test_a_processor_has_no_counters():
    class Stock:
        class table:
            class device:
                name = "cpu"

    assert "GPU only" in profiles.counters(Stock, candidate_of(SPEAKS), (METRIC,))["error"]


def test_the_newest_ncu_is_taken_where_the_path_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(ncu, "PLACES", (f"{tmp_path}/nsight-compute/*",))
    assert ncu.find_ncu() is None
    for version in ("2024.1.0", "2025.3.1", "2025.10.0"):
        program = tmp_path / "nsight-compute" / version / "ncu"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    (tmp_path / "nsight-compute" / "2026.1.0").mkdir()
    assert ncu.find_ncu() == tmp_path / "nsight-compute" / "2025.10.0" / "ncu"
    assert tmp_path / "nsight-compute" / "2025.10.0" in ncu.install_folders(ncu.find_ncu())


def test_clocks_stay_as_they_are_and_only_marked_calls_count():
    words = ncu.command(Path("/ncu"), ("a__b.sum", "c__d.sum"), Path("/log"))
    said = " ".join(words)
    assert words[0] == "/ncu"
    for part in (
        "--clock-control none",
        "--profile-from-start off",
        "--launch-count 32",
        "--metrics a__b.sum,c__d.sum",
    ):
        assert part in said
