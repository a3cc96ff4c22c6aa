"""What the doctor says about GPUs, also where there is none."""

import pytest
import torch

from kernelskill import doctor_gpu
from kernelskill.config import Config


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(("target", "needed"), [("cpu", False), ("cuda", True)])
def test_a_missing_gpu_matters_only_where_it_is_written_for(target, needed):
    (check,) = doctor_gpu.examine_gpu(Config(target=target))
    assert (check.name, check.ok, check.needed) == ("gpu", False, needed)
    assert "--target cpu" in check.remedy


def test_counters_that_the_driver_keeps_to_administrators():
    assert doctor_gpu.counters_restricted("EnableMSI: 1\nRmProfilingAdminOnly: 1\n"), (
        "also where root starts workers"
    )
    assert not doctor_gpu.counters_restricted("RmProfilingAdminOnly: 0\n")
    assert not doctor_gpu.counters_restricted("")


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What the doctor says of an ncu and a driver's parameters."""

    def ask(version, parameters):
        program = tmp_path / "ncu"
        program.write_text(
            f"#!/bin/sh\nprintf 'NVIDIA (R) Nsight Compute Command Line Profiler\\n{version}\\n'\n"
        )
        program.chmod(0o755)
        (tmp_path / "params").write_text(parameters)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(doctor_gpu, "PARAMETERS", tmp_path / "params")
        return doctor_gpu._counters()

    return ask


def test_what_is_told_of_counters(told):
    good = told("Version 2025.3.1.0 (build 36398880) (public-release)", "RmProfilingAdminOnly: 0\n")
    assert (good.ok, good.found) == (True, "2025.3.1.0, counters can be read")
    kept = told("Version 2025.3.1.0 (build 36398880) (public-release)", "RmProfilingAdminOnly: 1\n")
    assert not kept.ok
    assert "administrators only" in kept.found
    assert "ERR_NVGPUCTRPERM" in kept.remedy
    assert "/ncu, counters can be read" in told("something else", "").found


def test_a_machine_without_ncu(monkeypatch):
    monkeypatch.setattr("kernelskill.evaluation.cuda.ncu.find_ncu", lambda: None)
    assert doctor_gpu._counters().found == "not found"
