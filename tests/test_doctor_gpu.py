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


def test_counters_that_the_driver_keeps_to_administrators(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert doctor_gpu.counters_restricted("EnableMSI: 1\nRmProfilingAdminOnly: 1\n")
    assert not doctor_gpu.counters_restricted("RmProfilingAdminOnly: 0\n")
    assert not doctor_gpu.counters_restricted("")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert not doctor_gpu.counters_restricted("RmProfilingAdminOnly: 1\n")
