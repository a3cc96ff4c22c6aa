"""The machine's ceilings: measured for real, once, and read back from the cache."""

import shutil
from contextlib import contextmanager

import pytest

from kernelskill.errors import WorkerError
from kernelskill.floor import MachineFloor, ceilings, load_ceilings
from kernelskill.records import Ceilings

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="measuring needs g++")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("ceilings")


@pytest.fixture(scope="module")
def measured(cache):
    return load_ceilings(cache, 2)


def test_ceilings_are_plausible(measured):
    copy = {int(size): value for size, value in measured.bandwidth_gb_per_s.items()}
    assert min(copy) <= 2**17
    assert max(copy) == 2**28
    assert copy[min(copy)] > 1.5 * copy[max(copy)], "caches are faster than memory"
    assert 0.5 < max(copy.values()) < 20_000
    assert measured.fp32_gflops > 2 * measured.exp_gops, "an exponential takes several multiply-adds"
    assert measured.parallel_us > 0
    assert 0 < measured.call_us < 1000
    assert 0 < measured.operator_us < 1000


def test_a_smaller_footprint_is_never_slower(measured):
    for points in (measured.bandwidth_gb_per_s, measured.read_gb_per_s, measured.write_gb_per_s):
        values = [points[size] for size in sorted(points, key=int)]
        assert values == sorted(values, reverse=True)


def test_the_second_time_nothing_is_measured(cache, measured, monkeypatch):
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *_: pytest.fail("measured again"))
    assert load_ceilings(cache, 2) == measured
    assert MachineFloor(cache, 2).ceilings() == measured


def test_a_broken_cache_is_measured_again(tmp_path, measured, monkeypatch):
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda device, threads: measured)
    load_ceilings(tmp_path, 2)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:40])
    assert load_ceilings(tmp_path, 2) == measured
    assert Ceilings.model_validate_json(file.read_text()) == measured


def test_other_threads_are_another_entry(tmp_path, measured, monkeypatch):
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda device, threads: measured)
    load_ceilings(tmp_path, 1)
    load_ceilings(tmp_path, 2)
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_compiler_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings.shutil, "which", lambda name: None)
    with pytest.raises(WorkerError, match=r"apt-get install g\+\+"):
        load_ceilings(tmp_path, 2)


def test_a_failing_measurement_is_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "_FLAGS", ("-no-such-flag",))
    with pytest.raises(WorkerError, match=r"g\+\+"):
        load_ceilings(tmp_path, 2)


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3", 4), ("0,2", 2), ("0-1,8-9", 4)])
def test_processor_lists(text, count):
    assert ceilings._count(text) == count


def test_a_gpu_is_measured_alone_and_only_by_the_first_of_those_who_wait(tmp_path, measured, monkeypatch):
    entered = []

    @contextmanager
    def alone(index):
        entered.append(index)
        yield

    monkeypatch.setattr(
        ceilings, "measure_gpu_ceilings", lambda device, index: entered.append("measures") or measured
    )
    gpu = MachineFloor(tmp_path / "one", 2, "a GPU", 3, alone)
    assert gpu.ceilings() == measured
    assert entered == [3, "measures"]

    @contextmanager
    def after_another(index):
        (file,) = (tmp_path / "one").iterdir()
        shutil.copytree(file.parent, tmp_path / "two")
        yield

    monkeypatch.setattr(ceilings, "measure_gpu_ceilings", lambda *_: pytest.fail("measured again"))
    assert MachineFloor(tmp_path / "two", 2, "a GPU", 3, after_another).ceilings() == measured
