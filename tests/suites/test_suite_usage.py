"""Idleness is what the driver's tool says; where there is none, it is unknown, not zero."""

import time

import pytest

from kernelskill.suites.usage import GpuUsage


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A tool that answers as the driver's does: two GPUs, five samples."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nprintf "0\\n98\\n0\\n100\\n7\\n[N/A]\\n"\nexec sleep 60\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "asked"


def sampled(usage):
    end = time.monotonic() + 20
    while usage.idle_ratio is None or usage.idle_ratio != pytest.approx(0.4):
        assert time.monotonic() < end, f"idle share is {usage.idle_ratio}"
        time.sleep(0.02)


def test_the_share_of_samples_in_which_a_gpu_did_nothing(driver, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    usage = GpuUsage((0, 1))
    sampled(usage)
    usage.close()
    assert "--id=0,1" in driver.read_text()


def test_indices_are_those_of_the_driver(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-abc")
    usage = GpuUsage((1, 0))
    sampled(usage)
    usage.close()
    assert "--id=GPU-abc,3" in driver.read_text()


def test_unknown_without_a_tool_or_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for gpus in ((0,), ()):
        usage = GpuUsage(gpus)
        assert usage.idle_ratio is None
        usage.close()
