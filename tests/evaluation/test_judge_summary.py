"""Which part of the A/A band counts for which comparison."""

import pytest

from kernelskill.evaluation.summary import PROCESS_BAND, band_for


@pytest.mark.parametrize(
    ("arm", "sets", "band", "counts"),
    [
        ("eager", 1, 0.3, 0.3),  # one process of eager: its luck is not in the interval
        ("compile", 1, 0.01, 0.01),
        ("base", 1, 0.3, PROCESS_BAND),
        ("eager", 4, 0.3, PROCESS_BAND),  # the interval is over process sets
        ("eager", 4, 0.02, 0.02),
    ],
)
def test_the_band_is_capped_where_the_interval_holds_it(arm, sets, band, counts):
    assert band_for(arm, sets, band) == counts
