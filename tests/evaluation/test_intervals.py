"""A planted speedup lies inside the interval that a promotion gives. The whole: `python benchmarks/intervals.py`."""

import runpy
from pathlib import Path

import pytest

INTERVALS = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "intervals.py"))


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_planted_speedup_lies_inside_the_interval():
    found = INTERVALS["coverage"]("2x", tries=2, truth_sets=4, sets=3)
    assert found["held"] >= 1, found
    assert found["truth_ratio"] > 1.1
