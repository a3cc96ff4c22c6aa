"""A planted speedup is seen. How often intervals hold the truth: `python benchmarks/intervals.py`."""

import runpy
from pathlib import Path

import pytest

INTERVALS = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "intervals.py"))


@pytest.mark.timing
@pytest.mark.timeout(900)
def test_half_the_work_is_seen_as_faster():
    found = INTERVALS["coverage"]("cpu", "2x", tries=1, truth_sets=2)
    assert 1.3 < found["truth_ratio"] < 3, found
    assert found["intervals"][0][0] > 1, found
