"""What an ablation compares, and that all of it runs at the same budget."""

import pytest

from kernelskill.cli.ablate import variants_of
from kernelskill.config import load_config
from kernelskill.errors import ConfigError

SETTINGS = load_config(budget={"rounds": 3})


def test_one_variant_for_each_part_and_each_search():
    found = variants_of(SETTINGS, "long-term, gate", "beam")
    assert list(found) == ["whole", "without-long-term", "without-gate", "beam"]
    assert found["whole"] == SETTINGS
    assert found["without-gate"].without == ("gate",)
    assert found["without-gate"].search == "greedy"
    assert found["beam"].search == "beam"
    assert {item.budget for item in found.values()} == {SETTINGS.budget}


@pytest.mark.parametrize(
    ("without", "search", "word"),
    [("", "", "nothing to compare"), ("memory", "", "without"), ("", "random", "search")],
)
def test_what_cannot_be_compared_is_refused(without, search, word):
    with pytest.raises(ConfigError, match=word):
        variants_of(SETTINGS, without, search)
